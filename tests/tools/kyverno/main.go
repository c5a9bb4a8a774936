// Prints the results of Kyverno's engine for ValidatingPolicies and the objects of a request, one JSON request per line of
// the standard input, one JSON answer per line of the standard output. Objects are evaluated as in Kyverno's background
// scan: as requests that create them, without a user.
//
// With the argument library it prints where Go's module cache keeps the policies that Kyverno is tested with.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/kyverno/api/api/policies.kyverno.io/v1beta1"
	"github.com/kyverno/kyverno/pkg/cel/engine"
	"github.com/kyverno/kyverno/pkg/cel/libs"
	"github.com/kyverno/kyverno/pkg/cel/matching"
	"github.com/kyverno/kyverno/pkg/cel/policies/vpol/compiler"
	vpol "github.com/kyverno/kyverno/pkg/cel/policies/vpol/engine"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request has a policy, and what it is evaluated with.
type request struct {
	Policy     json.RawMessage    `json:"policy"`
	Exceptions []json.RawMessage  `json:"exceptions"`
	Objects    []map[string]any   `json:"objects"`
	Namespaces []corev1.Namespace `json:"namespaces"`
}

// answer has the results of each object, or why the policy is refused.
type answer struct {
	Refused string     `json:"refused,omitempty"`
	Results [][]result `json:"results,omitempty"`
}

type result struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "library" {
		folder, err := library()
		if err != nil {
			fail(err)
		}
		fmt.Println(folder)
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var given request
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			fail(err)
		}
		results, err := evaluate(given)
		reply := answer{Results: results}
		if err != nil {
			reply.Refused = err.Error()
		}
		if err := out.Encode(reply); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

const module = "github.com/kyverno/kyverno"

func library() (string, error) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("built without modules")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its module cache: %w", err)
	}
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			return filepath.Join(strings.TrimSpace(string(cache)), module+"@"+dependency.Version, "test"), nil
		}
	}
	return "", fmt.Errorf("built without %s", module)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func evaluate(given request) ([][]result, error) {
	policy, err := readPolicy(given.Policy)
	if err != nil {
		return nil, err
	}
	exceptions := make([]*v1beta1.PolicyException, 0, len(given.Exceptions))
	for _, raw := range given.Exceptions {
		var exception v1beta1.PolicyException
		if err := json.Unmarshal(raw, &exception); err != nil {
			return nil, err
		}
		exceptions = append(exceptions, &exception)
	}
	known, err := lookups(given.Objects)
	if err != nil {
		return nil, err
	}
	// The library of lookups is compiled with this context.
	libs.LibraryContext = known
	provider, err := vpol.NewProvider(compiler.NewCompiler(), []v1beta1.ValidatingPolicyLike{policy}, exceptions)
	if err != nil {
		return nil, err
	}
	namespaces := map[string]*corev1.Namespace{}
	for i := range given.Namespaces {
		namespaces[given.Namespaces[i].Name] = &given.Namespaces[i]
	}
	find := func(name string) *corev1.Namespace { return namespaces[name] }
	judge := vpol.NewEngine(provider, find, matching.NewMatcher())
	results := make([][]result, 0, len(given.Objects))
	for _, object := range given.Objects {
		own, err := judgeObject(judge, known, &unstructured.Unstructured{Object: object})
		if err != nil {
			return nil, err
		}
		results = append(results, own)
	}
	return results, nil
}

func readPolicy(raw json.RawMessage) (v1beta1.ValidatingPolicyLike, error) {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		return nil, err
	}
	if kind.Kind == "NamespacedValidatingPolicy" {
		var policy v1beta1.NamespacedValidatingPolicy
		return &policy, json.Unmarshal(raw, &policy)
	}
	var policy v1beta1.ValidatingPolicy
	return &policy, json.Unmarshal(raw, &policy)
}

// cluster has the objects of a request. Kyverno's own stand-in for a cluster does not list all namespaces at once.
type cluster struct {
	*libs.FakeContextProvider
	objects map[schema.GroupVersionResource][]unstructured.Unstructured
}

func (c *cluster) ListResources(
	apiVersion, resource, namespace string, selected map[string]string,
) (*unstructured.UnstructuredList, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	list := unstructured.UnstructuredList{Object: map[string]any{}}
	for _, object := range c.objects[version.WithResource(resource)] {
		inNamespace := namespace == "" || object.GetNamespace() == namespace
		if inNamespace && labels.SelectorFromSet(selected).Matches(labels.Set(object.GetLabels())) {
			list.Items = append(list.Items, object)
		}
	}
	return &list, nil
}

func lookups(objects []map[string]any) (libs.Context, error) {
	known := cluster{libs.NewFakeContextProvider(), map[schema.GroupVersionResource][]unstructured.Unstructured{}}
	for _, object := range objects {
		one := unstructured.Unstructured{Object: object}
		plural, _ := meta.UnsafeGuessKindToResource(one.GroupVersionKind())
		if err := known.AddResource(plural, &one); err != nil {
			return nil, err
		}
		known.objects[plural] = append(known.objects[plural], one)
	}
	return &known, nil
}

func judgeObject(judge vpol.Engine, known libs.Context, object *unstructured.Unstructured) ([]result, error) {
	kind := object.GroupVersionKind()
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	asked := engine.Request(known, kind, plural, "", object.GetName(), object.GetNamespace(), admissionv1.Create,
		authenticationv1.UserInfo{}, object, nil, false, nil)
	// A policy for one namespace is evaluated on the objects in it.
	concerns := vpol.Predicate(func(policy v1beta1.ValidatingPolicyLike) bool {
		return policy.GetNamespace() == "" || policy.GetNamespace() == object.GetNamespace()
	})
	response, err := judge.Handle(context.Background(), asked, concerns)
	if err != nil {
		return nil, err
	}
	results := []result{}
	for _, policy := range response.Policies {
		for _, rule := range policy.Rules {
			results = append(results, result{Status: string(rule.Status()), Message: rule.Message()})
		}
	}
	return results, nil
}
