// Command cel evaluates CEL expressions as the API server does for admission policies.
//
// It reads questions as JSON, one a line, and prints an answer for each, as JSON, one a line. With the argument
// declarations it prints the functions of the environment instead, one overload a line. With the argument benchmark and a
// number it evaluates each question that many times, and the answers have the nanoseconds of one evaluation.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// question is an expression with the values of its variables.
type question struct {
	Expression string `json:"expression"`
	// Variables are compiled in their order, and available as variables.NAME.
	Variables []variable `json:"variables"`
	// Bindings are the values of object, oldObject, params, request and namespaceObject.
	Bindings map[string]json.RawMessage `json:"bindings"`
}

// variable is a named expression of a policy.
type variable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

func (v variable) GetName() string          { return v.Name }
func (v variable) GetExpression() string    { return v.Expression }
func (v variable) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// answer has either a compile error, or an evaluation error or a value, and a cost.
type answer struct {
	Compile string `json:"compile,omitempty"`
	Type    string `json:"type,omitempty"`
	Value   string `json:"value,omitempty"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
	Nanos   int64  `json:"nanos,omitempty"`
}

// activation resolves the variables of the admission environment.
type activation struct {
	bindings map[string]any
	context  plugincel.CompositionContext
	cached   any
}

func (a *activation) ResolveName(name string) (any, bool) {
	if name == plugincel.VariableVarName {
		if a.cached == nil {
			a.cached = a.context.Variables(a)
		}
		return a.cached, true
	}
	value, found := a.bindings[name]
	return value, found
}

func (a *activation) Parent() interpreter.Activation { return nil }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	envSet := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	rounds := 0
	if len(arguments) > 0 && arguments[0] == "declarations" {
		return declarations(envSet)
	}
	if len(arguments) > 1 && arguments[0] == "benchmark" {
		count, err := strconv.Atoi(arguments[1])
		if err != nil {
			return err
		}
		rounds = count
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return err
		}
		text, err := json.Marshal(evaluate(envSet, asked, rounds))
		if err != nil {
			return err
		}
		out.Write(append(text, '\n'))
		// A question that ends the process must not take answers with it.
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func evaluate(envSet *environment.EnvSet, asked question, rounds int) (given answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			given = answer{Error: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	compiler, err := plugincel.NewCompositedCompiler(envSet)
	if err != nil {
		return answer{Compile: err.Error()}
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	for _, named := range asked.Variables {
		if result := compiler.CompileAndStoreVariable(named, options, environment.StoredExpressions); result.Error != nil {
			return answer{Compile: "variables." + named.Name + ": " + result.Error.Error()}
		}
	}
	result := compiler.CompileCELExpression(variable{Expression: asked.Expression}, options, environment.StoredExpressions)
	if result.Error != nil {
		return answer{Compile: result.Error.Error()}
	}
	bindings := map[string]any{"object": nil, "oldObject": nil, "params": nil, "namespaceObject": nil, "request": nil}
	for name, raw := range asked.Bindings {
		var value any
		if err := utiljson.Unmarshal(raw, &value); err != nil {
			return answer{Compile: err.Error()}
		}
		bindings[name] = value
	}
	given = once(compiler, result, bindings)
	if rounds > 0 {
		begin := time.Now()
		for range rounds {
			vars := &activation{bindings: bindings, context: compiler.CreateContext(context.Background())}
			result.Program.ContextEval(vars.context, vars)
		}
		given.Nanos = time.Since(begin).Nanoseconds() / int64(rounds)
	}
	return given
}

func once(compiler *plugincel.CompositedCompiler, result plugincel.CompilationResult, bindings map[string]any) answer {
	vars := &activation{bindings: bindings, context: compiler.CreateContext(context.Background())}
	value, details, err := result.Program.ContextEval(vars.context, vars)
	given := answer{Type: result.OutputType.String(), Cost: uint64(vars.context.GetAndResetCost())}
	if details != nil && details.ActualCost() != nil {
		given.Cost += *details.ActualCost()
	}
	if err != nil {
		given.Error = err.Error()
		return given
	}
	given.Value = render(value)
	return given
}

// render returns a text that differs for values of different types.
func render(value ref.Val) string {
	switch v := value.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Double:
		return double(float64(v))
	case types.String:
		return quote(string(v))
	case types.Bytes:
		return fmt.Sprintf("b%x", []byte(v))
	case types.Duration:
		return fmt.Sprintf("duration(%d)", int64(v.Duration))
	case types.Timestamp:
		return fmt.Sprintf("timestamp(%d, %d)", v.Unix(), v.Nanosecond())
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none()"
		}
		return "optional.of(" + render(v.GetValue()) + ")"
	case apiservercel.Quantity:
		return quantity(*v.Quantity)
	case *apiservercel.Quantity:
		return quantity(*v.Quantity)
	case apiservercel.URL:
		return "url(" + v.String() + ")"
	case apiservercel.IP:
		return "ip(" + v.String() + ")"
	case apiservercel.CIDR:
		return "cidr(" + v.String() + ")"
	case apiservercel.Semver:
		return "semver(" + v.String() + ")"
	case *apiservercel.Format:
		return "format(" + v.Name + ")"
	case apiservercel.Format:
		return "format(" + v.Name + ")"
	case traits.Lister:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, render(it.Next()))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case traits.Mapper:
		var parts []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entry, _ := v.Find(key)
			parts = append(parts, render(key)+": "+render(entry))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case ref.Type:
		return "type(" + v.TypeName() + ")"
	}
	return fmt.Sprintf("%T", value)
}

// quantity returns the digits of a quantity without trailing zeros, and the exponent.
func quantity(value resource.Quantity) string {
	copied := value.DeepCopy()
	decimal := copied.AsDec()
	digits, exponent := decimal.UnscaledBig().String(), -int(decimal.Scale())
	for strings.HasSuffix(digits, "0") && digits != "0" {
		digits, exponent = strings.TrimSuffix(digits, "0"), exponent+1
	}
	if digits == "0" {
		exponent = 0
	}
	return fmt.Sprintf("quantity(%se%d)", digits, exponent)
}

func double(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 0):
		return strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+")
	}
	text := strconv.FormatFloat(v, 'e', -1, 64)
	return "double(" + text + ")"
}

func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// declarations prints function, overload, call style, arguments and result, in the order in which overloads are tried.
func declarations(envSet *environment.EnvSet) error {
	env, err := envSet.Env(environment.StoredExpressions)
	if err != nil {
		return err
	}
	var names []string
	for name := range env.Functions() {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if env.Functions()[name].IsDeclarationDisabled() {
			continue
		}
		for _, overload := range env.Functions()[name].OverloadDecls() {
			style := "global"
			if overload.IsMemberFunction() {
				style = "member"
			}
			var arguments []string
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, argument.String())
			}
			fmt.Printf("%s %s %s (%s) %s\n", name, overload.ID(), style, strings.Join(arguments, ", "), overload.ResultType())
		}
	}
	return nil
}
