package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one sandbox. Its own certificate and key lie beside what it issues.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// keyPair names the two PEM files of one certificate.
type keyPair struct{ cert, key string }

func newAuthority(dir, name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{dir: dir}
	cert, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	a.cert, a.key = cert, key
	_, err = a.write(name, cert, key)
	return a, err
}

func (a *authority) pair() keyPair { return a.files(a.cert.Subject.CommonName) }

// server issues a certificate for loopback and the names and addresses given.
func (a *authority) server(file string, names ...string) (keyPair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: file},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.issue(file, template)
}

// client issues a certificate for a Kubernetes user, with its groups.
func (a *authority) client(file, user string, groups ...string) (keyPair, error) {
	return a.issue(file, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(file string, template *x509.Certificate) (keyPair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, key, err := a.sign(template)
	if err != nil {
		return keyPair{}, err
	}
	return a.write(file, cert, key)
}

// sign makes a key and its certificate, signed by the authority, or by itself while there is none.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func (a *authority) files(name string) keyPair {
	return keyPair{filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")}
}

func (a *authority) write(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) (keyPair, error) {
	pair := a.files(name)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair, err
	}
	if err := writePEM(pair.key, "PRIVATE KEY", der); err != nil {
		return pair, err
	}
	return pair, writePEM(pair.cert, "CERTIFICATE", cert.Raw)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
