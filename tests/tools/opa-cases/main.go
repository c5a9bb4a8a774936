// Command opa-cases prints OPA's compliance cases as JSON, one a line. They are read from Go's module cache, where
// building this command has put them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

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

func main() {
	if err := printCases(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
