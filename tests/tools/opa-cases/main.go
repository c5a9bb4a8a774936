// Command opa-cases prints OPA's compliance cases as JSON, one a line. They are read from Go's module cache, where
// building this command has put them.
//
// With the argument compile it reads sets of modules instead, as JSON, one set a line, and prints for each what `opa check`
// finds wrong with it. With the argument evaluate it also evaluates rules of each set.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/test/cases"
)

const opa = "github.com/open-policy-agent/opa"

// testCase is a case and where it stands.
type testCase struct {
	cases.TestCase
	// Version is the Rego version: v0 or v1.
	Version string `json:"version"`
	// Group is the folder, which is named after what is tested.
	Group string `json:"group"`
}

// moduleSet is what is compiled together.
type moduleSet struct {
	// Modules are texts by file name.
	Modules map[string]string `json:"modules"`
	// Version is the Rego version: v0 or v1.
	Version string `json:"version"`
}

// problem is one error of the compiler.
type problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

func main() {
	run := printCases
	switch {
	case len(os.Args) > 1 && os.Args[1] == "compile":
		run = compileSets
	case len(os.Args) > 1 && os.Args[1] == "evaluate":
		run = evaluateSets
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compileSets() error {
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for {
		var set moduleSet
		if err := decoder.Decode(&set); errors.Is(err, io.EOF) {
			return out.Flush()
		} else if err != nil {
			return err
		}
		_, problems := compile(set)
		if err := encoder.Encode(problems); err != nil {
			return err
		}
	}
}

// compile does what `opa check` does.
func compile(set moduleSet) (*ast.Compiler, []problem) {
	version := ast.RegoV1
	if set.Version == "v0" {
		version = ast.RegoV0
	}
	problems := []problem{}
	modules := map[string]*ast.Module{}
	for name, text := range set.Modules {
		module, err := ast.ParseModuleWithOpts(name, text, ast.ParserOptions{RegoVersion: version, ProcessAnnotation: true})
		var errs ast.Errors
		switch {
		case errors.As(err, &errs):
			problems = append(problems, shown(errs)...)
		case err != nil:
			problems = append(problems, problem{File: name, Message: err.Error()})
		default:
			modules[name] = module
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	compiler := ast.NewCompiler().SetErrorLimit(0).WithEnablePrintStatements(true).WithUseTypeCheckAnnotations(true)
	compiler.Compile(modules)
	return compiler, append(problems, shown(compiler.Errors)...)
}

func shown(errs ast.Errors) []problem {
	var problems []problem
	for _, err := range errs {
		one := problem{Code: err.Code, Message: err.Message}
		if err.Location != nil {
			one.File, one.Line = err.Location.File, err.Location.Row
		}
		problems = append(problems, one)
	}
	return problems
}

func printCases() error {
	folder, err := moduleFolder()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, version := range []string{"v0", "v1"} {
		set, err := cases.Load(filepath.Join(folder, "v1", "test", "cases", "testdata", version))
		if err != nil {
			return err
		}
		for _, one := range set.Cases {
			if err := encoder.Encode(testCase{one, version, filepath.Base(filepath.Dir(one.Filename))}); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// moduleFolder returns where Go keeps the version of OPA that this command was built with.
func moduleFolder() (string, error) {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("built without modules")
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its module cache: %w", err)
	}
	for _, module := range build.Deps {
		if module.Path == opa {
			return filepath.Join(strings.TrimSpace(string(cache)), opa+"@"+module.Version), nil
		}
	}
	return "", fmt.Errorf("built without %s", opa)
}
