// Command registry is the Distribution project's registry with what tests take of it: blobs in a directory or in memory, and
// passwords in a file. Its only argument is a file of settings.
package main

import (
	"context"
	"log"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: registry SETTINGS")
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	settings, err := configuration.Parse(file)
	if err != nil {
		log.Fatal(err)
	}
	server, err := registry.NewRegistry(context.Background(), settings)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ListenAndServe())
}
