package vcenter

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"sync/atomic"
)

// certificate is what the vCenter shows to those who connect from now on.
type certificate struct {
	shown atomic.Pointer[tls.Certificate]
}

func (c *certificate) load(cert, key string) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err == nil {
		c.shown.Store(&pair)
	}
	return err
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.shown.Load(), nil },
		// A vCenter is restarted for another certificate, and then knows nobody from before.
		SessionTicketsDisabled: true,
	}
}

func (f *front) putCertificate(w http.ResponseWriter, r *http.Request) {
	var p struct{ Certificate, Key string }
	if !take(w, r, &p) {
		return
	}
	pair, err := tls.X509KeyPair([]byte(p.Certificate), []byte(p.Key))
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("certificate and key, both as PEM text: %w", err))
		return
	}
	f.certificate.shown.Store(&pair)
	reply(w, struct{}{})
}
