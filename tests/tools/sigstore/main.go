// Command sigstore signs as cosign does without a key, by authorities and logs of its own, and verifies as sigstore-go does.
// It reads requests as JSON from standard input, one a line, and prints an answer for each, again one line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// request asks for one thing: a signature, or a verdict.
type request struct {
	Sign   *signing      `json:"sign"`
	Verify *verification `json:"verify"`
}

// answer has the signature, with the root to verify it by; or why what was asked for is refused, which is empty if it is not.
type answer struct {
	Root        json.RawMessage   `json:"root,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Bundle      json.RawMessage   `json:"bundle,omitempty"`
	Refused     string            `json:"refused,omitempty"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader, output io.Writer) error {
	if len(os.Args) > 1 {
		return errors.New("usage: sigstore < requests.ndjson")
	}
	instances := map[string]*instance{}
	reader, encoder := bufio.NewReader(input), json.NewEncoder(output)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			return err
		}
		var told answer
		switch {
		case asked.Verify != nil:
			told.Refused = refusal(asked.Verify)
		case asked.Sign != nil:
			if told, err = asked.Sign.run(instances); err != nil {
				return err
			}
		default:
			return errors.New("a request is neither sign nor verify")
		}
		if err := encoder.Encode(told); err != nil {
			return err
		}
	}
}

// refusal returns why a signature is not what it has to be; what ends sigstore-go is no approval either.
func refusal(asked *verification) (why string) {
	defer func() {
		if panicked := recover(); panicked != nil {
			why = fmt.Sprint("panic: ", panicked)
		}
	}()
	if err := asked.run(); err != nil {
		return err.Error()
	}
	return ""
}
