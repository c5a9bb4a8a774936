// Command forwarder is the part of a kubelet that forwards ports: all those of any pod lead to the address that it is given.
// It prints the port that it listens at.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// address is where streams lead.
type address string

func (to address) PortForward(ctx context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", string(to))
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		// Ends with the connection or with the stream, whichever is first.
		io.Copy(connection, stream)
		connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

func main() {
	if err := run(address(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(to address) error {
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// /portForward/NAMESPACE/POD, perhaps with /UID behind it.
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if len(parts) < 3 || parts[0] != "portForward" {
			http.NotFound(w, r)
			return
		}
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, to, parts[2], "", options, time.Minute, 30*time.Second, portforward.SupportedProtocols)
	})
	// Streams are of HTTP/1.1 that was upgraded.
	server := &http.Server{
		Handler:   handler,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}},
	}
	return server.ServeTLS(listener, "", "")
}

// selfSigned makes a certificate: an API server without --kubelet-certificate-authority takes any.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
