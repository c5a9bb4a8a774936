package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// patience is how long one rule may take.
const patience = 10 * time.Second

// question is a set of modules, and what to evaluate of it.
type question struct {
	moduleSet
	// Rules are references such as data.p.r.
	Rules  []string       `json:"rules"`
	Inputs []any          `json:"inputs"`
	Data   map[string]any `json:"data"`
	// Strict has built-in functions that fail end the evaluation.
	Strict bool `json:"strict"`
}

// answer is what is wrong with the modules, or the value of each rule for each input.
type answer struct {
	Problems []problem  `json:"problems"`
	Results  [][]result `json:"results"`
}

// result is a value, an error, or neither for a rule that is undefined.
type result struct {
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

func evaluateSets() error {
	decoder := json.NewDecoder(bufio.NewReader(os.Stdin))
	decoder.UseNumber()
	// OPA accepts some modules that recurse without end. The answers before such a module are written.
	debug.SetMaxStack(64 << 20)
	encoder := json.NewEncoder(os.Stdout)
	for {
		var one question
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answered, err := evaluate(one)
		if err != nil {
			return err
		}
		if err := encoder.Encode(answered); err != nil {
			return err
		}
	}
}

func evaluate(one question) (answer, error) {
	compiler, problems := compile(one.moduleSet)
	if len(problems) > 0 {
		return answer{Problems: problems}, nil
	}
	ctx := context.Background()
	store := inmem.NewFromObject(one.Data)
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return answer{}, err
	}
	defer store.Abort(ctx, txn)
	var bodies []ast.Body
	for _, rule := range one.Rules {
		body, err := ast.ParseBody("x = " + rule)
		if err != nil {
			return answer{}, err
		}
		if body, err = compiler.QueryCompiler().Compile(body); err != nil {
			return answer{}, err
		}
		bodies = append(bodies, body)
	}
	var results [][]result
	for _, input := range one.Inputs {
		value, err := ast.InterfaceToValue(input)
		if err != nil {
			return answer{}, err
		}
		var row []result
		for _, body := range bodies {
			row = append(row, run(ctx, compiler, store, txn, body, ast.NewTerm(value), one.Strict))
		}
		results = append(results, row)
	}
	return answer{Results: results}, nil
}

func run(ctx context.Context, compiler *ast.Compiler, store storage.Store, txn storage.Transaction, body ast.Body, input *ast.Term, strict bool) result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	query := topdown.NewQuery(body).WithCompiler(compiler).WithStore(store).WithTransaction(txn).WithInput(input).
		WithStrictBuiltinErrors(strict)
	found, err := query.Run(ctx)
	switch {
	case err != nil:
		return result{Error: err.Error()}
	case len(found) == 0:
		return result{}
	default:
		return result{Value: tagged(found[0][ast.Var("x")].Value)}
	}
}

// tagged keeps apart what JSON does not: sets and arrays, keys of every type.
func tagged(value ast.Value) any {
	items := []any{}
	switch value := value.(type) {
	case *ast.Array:
		value.Foreach(func(item *ast.Term) { items = append(items, tagged(item.Value)) })
		return map[string]any{"array": items}
	case ast.Set:
		value.Foreach(func(item *ast.Term) { items = append(items, tagged(item.Value)) })
		return map[string]any{"set": items}
	case ast.Object:
		value.Foreach(func(key, item *ast.Term) { items = append(items, []any{tagged(key.Value), tagged(item.Value)}) })
		return map[string]any{"object": items}
	case ast.Number:
		return map[string]any{"number": string(value)}
	default:
		plain, err := ast.JSON(value)
		if err != nil {
			return map[string]any{"unknown": err.Error()}
		}
		return map[string]any{"scalar": plain}
	}
}
