// Command kubectl-read reads manifests as kubectl does, without a cluster: for each file of a folder it prints a line of
// JSON with the objects in it, and why the rest is refused.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// file is what a file holds.
type file struct {
	Name string `json:"name"`
	// Objects are those of lists, too.
	Objects []map[string]any `json:"objects"`
	// Odd are documents that can be read and are no objects.
	Odd []string `json:"odd"`
	// Refused is why reading ended before the end.
	Refused string `json:"refused"`
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		found := file{Name: entry.Name(), Objects: []map[string]any{}, Odd: []string{}}
		found.read(content)
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
	return out.Flush()
}

func (f *file) read(content []byte) {
	// The size of the buffer is kubectl's.
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var document runtime.RawExtension
		if err := decoder.Decode(&document); err != nil {
			if !errors.Is(err, io.EOF) {
				f.Refused = err.Error()
			}
			return
		}
		raw := bytes.TrimSpace(document.Raw)
		if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		object, _, err := unstructured.UnstructuredJSONScheme.Decode(raw, nil, nil)
		if err != nil {
			f.Odd = append(f.Odd, err.Error())
			continue
		}
		f.add(object)
	}
}

func (f *file) add(object runtime.Object) {
	if one, ok := object.(*unstructured.Unstructured); ok && !one.IsList() {
		f.Objects = append(f.Objects, one.Object)
		return
	}
	list, ok := object.(*unstructured.UnstructuredList)
	if one, isOne := object.(*unstructured.Unstructured); isOne {
		var err error
		if list, err = one.ToList(); err != nil {
			f.Odd = append(f.Odd, err.Error())
			return
		}
	} else if !ok {
		f.Odd = append(f.Odd, fmt.Sprintf("%T", object))
		return
	}
	for i := range list.Items {
		f.add(&list.Items[i])
	}
}
