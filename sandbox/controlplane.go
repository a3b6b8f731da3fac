package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"drover.dev/sandbox/node"
)

// controlPlane is etcd, the API server and the controller manager of one sandbox.
type controlPlane struct {
	dir        string
	ca         *authority
	place      *node.Place // of the node, if there is one
	server     string
	kubeconfig string
	client     *http.Client
}

// start brings etcd and the API server up. add is called with each part as soon as it runs, ready once it can be used.
func (c *controlPlane) start(ctx context.Context, add func(*part), ready func(string)) error {
	if err := c.prepare(); err != nil {
		return err
	}
	etcdURL, err := c.startEtcd(ctx, add)
	if err != nil {
		return err
	}
	apiserver, err := c.startAPIServer(etcdURL)
	if err != nil {
		return err
	}
	add(apiserver)
	if err := apiserver.waitReady(ctx, func(ctx context.Context) error { return c.probe(ctx, "/readyz") }); err != nil {
		return err
	}
	ready("etcd and kube-apiserver")
	return nil
}

// manage brings up the controllers.
func (c *controlPlane) manage(ctx context.Context, add func(*part), ready func(string)) error {
	manager, err := c.startControllerManager()
	if err != nil {
		return err
	}
	add(manager)
	// Pods, tests with service accounts and everything in a namespace wait for this one.
	if err := manager.waitReady(ctx, func(ctx context.Context) error {
		return c.probe(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	}); err != nil {
		return err
	}
	ready("kube-controller-manager")
	return nil
}

// prepare makes the credentials of the administrator, and what probe needs.
func (c *controlPlane) prepare() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	c.server = fmt.Sprintf("https://%s:%d", c.address(), port)
	admin, err := c.ca.client("admin", "sandbox-admin", "system:masters")
	if err != nil {
		return err
	}
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	if err := c.writeKubeconfig(c.kubeconfig, admin); err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(admin.cert, admin.key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.ca.cert)
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 5 * time.Second}
	return nil
}

func (c *controlPlane) startEtcd(ctx context.Context, add func(*part)) (string, error) {
	program, err := assetOr("etcd")
	if err != nil {
		return "", err
	}
	var urls [2]string
	for i := range urls {
		port, err := freePort()
		if err != nil {
			return "", err
		}
		urls[i] = fmt.Sprintf("http://127.0.0.1:%d", port)
	}
	etcd, err := startPart(c.dir, "etcd", program,
		"--data-dir="+filepath.Join(c.dir, "etcd"),
		"--listen-client-urls="+urls[0], "--advertise-client-urls="+urls[0],
		"--listen-peer-urls="+urls[1], "--initial-advertise-peer-urls="+urls[1], "--initial-cluster=default="+urls[1],
		"--unsafe-no-fsync", "--log-level=warn")
	if err != nil {
		return "", err
	}
	add(etcd)
	// The API server gives up on an etcd that isn't there, so it is waited for here.
	return urls[0], etcd.waitReady(ctx, func(ctx context.Context) error { return get(ctx, http.DefaultClient, urls[0]+"/health") })
}

func (c *controlPlane) startAPIServer(etcdURL string) (*part, error) {
	program, err := assetOr("kube-apiserver")
	if err != nil {
		return nil, err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	if c.place != nil {
		names = append(names, c.place.Machine().String(), c.place.APIServer().String())
	}
	serving, err := c.ca.server("kube-apiserver", names...)
	if err != nil {
		return nil, err
	}
	tokens, err := c.ca.client("service-accounts", "service-accounts")
	if err != nil {
		return nil, err
	}
	frontProxyCA, err := newAuthority(c.ca.dir, "front-proxy-ca")
	if err != nil {
		return nil, err
	}
	frontProxy, err := frontProxyCA.client("front-proxy", "front-proxy-client")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(c.server[len("https://"):])
	if err != nil {
		return nil, err
	}
	reach, err := c.reach()
	if err != nil {
		return nil, err
	}
	return startPart(c.dir, "kube-apiserver", program, append(reach,
		"--etcd-servers="+etcdURL,
		"--bind-address="+c.address(), "--advertise-address="+c.address(), "--secure-port="+port,
		"--tls-cert-file="+serving.cert, "--tls-private-key-file="+serving.key,
		"--client-ca-file="+c.ca.pair().cert,
		"--authorization-mode=Node,RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+tokens.cert, "--service-account-signing-key-file="+tokens.key,
		"--requestheader-client-ca-file="+frontProxyCA.pair().cert, "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+frontProxy.cert, "--proxy-client-key-file="+frontProxy.key,
		"--allow-privileged", "--profiling=false")...)
}

// address is where the API server listens: on loopback, or on the link to the node, which nothing else has a way to.
func (c *controlPlane) address() string {
	if c.place != nil {
		return c.place.Machine().String()
	}
	return "127.0.0.1"
}

// reach is how the API server is reached from a cluster, and how it reaches the node.
func (c *controlPlane) reach() ([]string, error) {
	if c.place == nil {
		return []string{
			// Loopback can't be a service's endpoint; nothing in the sandbox reaches the API server that way.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=198.18.128.0/20",
		}, nil
	}
	identity, err := c.ca.client("kube-apiserver-kubelet", "kube-apiserver-kubelet", "system:masters")
	return []string{
		"--service-cluster-ip-range=" + c.place.Services().String(),
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + identity.cert, "--kubelet-client-key=" + identity.key,
		"--kubelet-certificate-authority=" + c.ca.pair().cert, "--kubelet-preferred-address-types=InternalIP",
	}, err
}

func (c *controlPlane) startControllerManager() (*part, error) {
	kubeconfig, err := c.kubeconfigOf("kube-controller-manager", "system:kube-controller-manager")
	if err != nil {
		return nil, err
	}
	ca, tokens := c.ca.pair(), c.ca.files("service-accounts")
	return startPart(c.dir, "kube-controller-manager", "kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false",
		// At the default rate, making a token for each controller takes 4 s.
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		"--use-service-account-credentials", "--service-account-private-key-file="+tokens.key, "--root-ca-file="+ca.cert,
		"--cluster-signing-cert-file="+ca.cert, "--cluster-signing-key-file="+ca.key)
}

func (c *controlPlane) probe(ctx context.Context, path string) error {
	return get(ctx, c.client, c.server+path)
}

// kubeconfigOf makes an identity for a part, and the file with which the part uses it.
func (c *controlPlane) kubeconfigOf(part, user string, groups ...string) (string, error) {
	identity, err := c.ca.client(part+"-client", user, groups...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.ca.dir, part+".kubeconfig")
	return path, c.writeKubeconfig(path, identity)
}

func (c *controlPlane) writeKubeconfig(path string, user keyPair) error {
	var data [3]string
	for i, file := range []string{c.ca.pair().cert, user.cert, user.key} {
		pem, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data[i] = base64.StdEncoding.EncodeToString(pem)
	}
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: sandbox
clusters:
- name: sandbox
  cluster: {server: %q, certificate-authority-data: %s}
contexts:
- name: sandbox
  context: {cluster: sandbox, user: sandbox}
users:
- name: sandbox
  user: {client-certificate-data: %s, client-key-data: %s}
`, c.server, data[0], data[1], data[2]), 0o600)
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	// Read to its end, or the next one would have to shake hands again.
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, res.Status, body[:min(len(body), 500)])
	}
	return nil
}

// assetOr names the program's file in KUBEBUILDER_ASSETS where that is set, else the program in this binary.
func assetOr(program string) (string, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return program, nil
	}
	path := filepath.Join(assets, program)
	if _, err := os.Stat(path); err != nil {
		return "", badInput{fmt.Errorf("KUBEBUILDER_ASSETS is set, but there is no %s in it: %w", program, err)}
	}
	return filepath.Abs(path)
}
