// Package vcenter is vcsim behind a front that behaves as a real vCenter does where vcsim doesn't, and that can be told
// to misbehave.
package vcenter

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Address is how to reach a vCenter. The vcsim program prints it, as JSON, once it can be reached.
type Address struct {
	Host     string `json:"host"`
	User     string `json:"user"`
	Password string `json:"password"`
	Control  string `json:"control"`
}

// URL is the address with its credentials, as govc takes it.
func (a Address) URL() string {
	return (&url.URL{Scheme: "https", User: url.UserPassword(a.User, a.Password), Host: a.Host, Path: "/sdk"}).String()
}

// Main is the vcsim program: it serves until it is ended.
func Main(args []string) int {
	var i Inventory
	f := flag.NewFlagSet("vcsim", flag.ExitOnError)
	i.Register(f)
	cert := f.String("cert", "", "certificate `file`, PEM")
	key := f.String("key", "", "the certificate's key `file`, PEM")
	ip := f.String("ip", "127.0.0.1", "`address` to listen on; the control endpoint is always on loopback")
	_ = f.Parse(args) // ExitOnError
	if *cert == "" || *key == "" {
		fmt.Fprintln(os.Stderr, "vcsim: --cert and --key are needed ('sandbox up' makes them)")
		return 2
	}
	if err := serve(i, *ip, *cert, *key); err != nil {
		fmt.Fprintln(os.Stderr, "vcsim:", err)
		return 1
	}
	return 0
}

func serve(i Inventory, ip, cert, key string) error {
	service, err := i.create()
	if err != nil {
		return err
	}
	address := Address{User: "administrator@vsphere.local", Password: "Pa$$-" + rand.Text()}
	front := newFront(service, i, address.User, address.Password)
	sdk, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address.Host = sdk.Addr().String()
	address.Control = "http://" + control.Addr().String()

	failed := make(chan error, 1)
	go func() { failed <- http.Serve(control, front.control()) }()
	server := &http.Server{
		Handler:           front,
		ReadHeaderTimeout: 30 * time.Second,
		// A dropped connection is taken over from the server, which HTTP/2 doesn't allow.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(os.Stderr, "", log.LstdFlags),
		TLSConfig:    front.certificate.config(),
	}
	if err := front.certificate.load(cert, key); err != nil {
		return err
	}
	go func() { failed <- server.ServeTLS(front.outage.listen(sdk), "", "") }()
	if err := json.NewEncoder(os.Stdout).Encode(address); err != nil {
		return err
	}
	return <-failed
}
