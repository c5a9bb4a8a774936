// Command trivy judges Kubernetes objects by a directory of checks (and folders of data in it), as Trivy's scanner does: it reads objects as JSON from
// standard input, one a line, each of which is scanned alone, and prints what fails for each, again one line.
//
// With the argument library it prints where Go's module cache keeps the checks that this version of Trivy comes with,
// their tests and fixtures included.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/aquasecurity/trivy/pkg/iac/rego"
	"github.com/aquasecurity/trivy/pkg/iac/scanners/kubernetes/parser"
	"github.com/aquasecurity/trivy/pkg/iac/types"
)

const library = "github.com/aquasecurity/trivy-checks"

// failure is one result of one check.
type failure struct {
	ID       string `json:"id"`
	Package  string `json:"package"`
	Rule     string `json:"rule"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 && len(arguments) != 2 {
		return errors.New("usage: trivy library | trivy CHECKS [DATA] < objects.ndjson")
	}
	if arguments[0] == "library" {
		folder, err := moduleFolder()
		if err == nil {
			fmt.Println(folder)
		}
		return err
	}
	return scan(context.Background(), arguments[0], arguments[1:])
}

func scan(ctx context.Context, folder string, data []string) error {
	scanner := rego.NewScanner(
		rego.WithPolicyDirs("."),
		rego.WithPolicyNamespaces("user"),
		rego.WithDataDirs(data...),
	)
	if err := scanner.LoadPolicies(os.DirFS(folder)); err != nil {
		return err
	}
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for {
		var object json.RawMessage
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return out.Flush()
		} else if err != nil {
			return err
		}
		// Its reader of JSON takes no negative numbers and no fractions; JSON is YAML, too.
		manifest, err := parser.ManifestFromYAML("object.yaml", object)
		if err != nil {
			return err
		}
		input := rego.Input{Path: "object.yaml", Contents: manifest.ToRego()}
		results, err := scanner.ScanInput(ctx, types.SourceKubernetes, input)
		if err != nil {
			return err
		}
		failures := []failure{}
		for _, result := range results.GetFailed() {
			failures = append(failures, failure{
				ID:       result.Rule().ID,
				Package:  result.RegoNamespace(),
				Rule:     result.RegoRule(),
				Severity: string(result.Severity()),
				Message:  result.Description(),
			})
		}
		if err := encoder.Encode(failures); err != nil {
			return err
		}
	}
}

// moduleFolder returns where Go keeps the version of the library that this command was built with.
func moduleFolder() (string, error) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("built without modules")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its module cache: %w", err)
	}
	for _, module := range build.Deps {
		if module.Path == library {
			return filepath.Join(strings.TrimSpace(string(cache)), library+"@"+module.Version), nil
		}
	}
	return "", fmt.Errorf("built without %s", library)
}
