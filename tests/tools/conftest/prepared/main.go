// Prepared measures OPA as a Go library: policies compiled and queries prepared beforehand, inputs converted
// beforehand, one thread, evaluation only.
//
//	prepared ROUNDS JOBS
//
// JOBS is a JSON file: units, each with its modules, a query and perhaps parameters or data, and inputs, each with the units
// that judge it. A unit with parameters sees {"review": input, "parameters": parameters}, as Gatekeeper's do.
// It prints JSON: the seconds of each round, and how many results the last one gave.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

type unit struct {
	Version string            `json:"version"`
	Modules map[string]string `json:"modules"`
	Query   string            `json:"query"`

	Parameters any            `json:"parameters"`
	Data       map[string]any `json:"data"`
}

type input struct {
	Units []int `json:"units"`
	Value any   `json:"value"`
}

type jobs struct {
	Units  []unit  `json:"units"`
	Inputs []input `json:"inputs"`
}

type question struct {
	unit  int
	input ast.Value
}

type outcome struct {
	Seconds []float64 `json:"seconds"`
	Results int       `json:"results"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: prepared ROUNDS JOBS")
	}
	rounds, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(os.Args[2])
	if err != nil {
		return err
	}
	var all jobs
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	ctx := context.Background()
	queries := make([]rego.PreparedEvalQuery, len(all.Units))
	for i, unit := range all.Units {
		if queries[i], err = prepare(ctx, unit); err != nil {
			return fmt.Errorf("unit %d: %w", i, err)
		}
	}
	var questions []question
	for i := range all.Inputs {
		value, err := ast.InterfaceToValue(all.Inputs[i].Value)
		if err != nil {
			return err
		}
		for _, unit := range all.Inputs[i].Units {
			input := value
			if parameters := all.Units[unit].Parameters; parameters != nil {
				given, err := ast.InterfaceToValue(parameters)
				if err != nil {
					return err
				}
				input = ast.NewObject(ast.Item(ast.StringTerm("review"), ast.NewTerm(value)),
					ast.Item(ast.StringTerm("parameters"), ast.NewTerm(given)))
			}
			questions = append(questions, question{unit, input})
		}
		all.Inputs[i].Value = nil
	}
	var told outcome
	for range rounds {
		began := time.Now()
		told.Results = 0
		for _, question := range questions {
			set, err := queries[question.unit].Eval(ctx, rego.EvalParsedInput(question.input))
			if err != nil {
				return err
			}
			told.Results += count(set)
		}
		told.Seconds = append(told.Seconds, time.Since(began).Seconds())
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

func prepare(ctx context.Context, unit unit) (rego.PreparedEvalQuery, error) {
	version := ast.RegoV1
	if unit.Version == "v0" {
		version = ast.RegoV0
	}
	options := []func(*rego.Rego){rego.Query(unit.Query), rego.SetRegoVersion(version)}
	for name, text := range unit.Modules {
		options = append(options, rego.Module(name, text))
	}
	if unit.Data != nil {
		// Otherwise each evaluation converts the data that it reads.
		store := inmem.NewFromObjectWithOpts(unit.Data, inmem.OptReturnASTValuesOnRead(true))
		options = append(options, rego.Store(store))
	}
	return rego.New(options...).PrepareForEval(ctx)
}

// count returns how many results a query gave: each expression is a set, or a list of sets.
func count(set rego.ResultSet) int {
	total := 0
	for _, result := range set {
		for _, expression := range result.Expressions {
			list, _ := expression.Value.([]any)
			for _, item := range list {
				if inner, nested := item.([]any); nested {
					total += len(inner)
				} else {
					total++
				}
			}
		}
	}
	return total
}
