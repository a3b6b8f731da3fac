// Package names is the DNS of a node: small, and apart from the rest of the node, because its client of the API server takes
// a third of the time in which a program starts, and would be linked into every one.
package names

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// names answers for the cluster's services by name, as a cluster's DNS does. It knows no other name, and asks nobody.
type names struct {
	cluster kubernetes.Interface
}

// Serve answers on an address until the node ends.
func Serve(address netip.AddrPort, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(address))
	if err != nil {
		return fmt.Errorf("names are served at %s: %w", address, err)
	}
	go names{cluster}.serve(conn)
	return nil
}

func (n names) serve(conn *net.UDPConn) {
	for {
		question := make([]byte, 512)
		size, client, err := conn.ReadFromUDPAddrPort(question)
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			answer, err := n.answer(question[:size])
			if err == nil {
				_, err = conn.WriteToUDPAddrPort(answer, client)
			}
			if err != nil {
				log.Printf("a question of %s for a name: %v", client, err)
			}
		}()
	}
}

func (n names) answer(message []byte) ([]byte, error) {
	var parser dnsmessage.Parser
	header, err := parser.Start(message)
	if err != nil {
		return nil, err
	}
	question, err := parser.Question()
	if err != nil {
		return nil, err
	}
	header = dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired}
	addresses, err := n.find(question.Name.String())
	switch {
	case err != nil:
		log.Printf("name %s: %v", question.Name, err)
		header.RCode = dnsmessage.RCodeServerFailure
	case len(addresses) == 0:
		header.RCode = dnsmessage.RCodeNameError
	}
	answer := dnsmessage.NewBuilder(nil, header)
	answer.EnableCompression()
	if err := answer.StartQuestions(); err != nil {
		return nil, err
	}
	if err := answer.Question(question); err != nil {
		return nil, err
	}
	if err := answer.StartAnswers(); err != nil {
		return nil, err
	}
	for _, address := range addresses {
		// A name that is there has no other kind of address, and that is no error.
		if question.Type != dnsmessage.TypeA {
			break
		}
		resource := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 5}
		if err := answer.AResource(resource, dnsmessage.AResource{A: address.As4()}); err != nil {
			return nil, err
		}
	}
	return answer.Finish()
}

// find looks up NAME.NAMESPACE.svc.cluster.local: the service's address, or those of its endpoints if it has none. With a HOSTNAME
// in front, it is those of the endpoints that are called so.
func (n names) find(name string) ([]netip.Addr, error) {
	service, ok := strings.CutSuffix(strings.ToLower(name), ".svc.cluster.local.")
	words := strings.Split(service, ".")
	hostname := ""
	if len(words) == 3 {
		hostname, words = words[0], words[1:]
	}
	if !ok || len(words) != 2 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	// kube-proxy, whose rights these are, may list services, but not read one.
	found, err := n.cluster.CoreV1().Services(words[1]).List(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + words[0]})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	if address, err := netip.ParseAddr(found.Items[0].Spec.ClusterIP); err == nil && hostname == "" {
		return []netip.Addr{address}, nil
	}
	slices, err := n.cluster.DiscoveryV1().EndpointSlices(words[1]).List(ctx, meta.ListOptions{LabelSelector: "kubernetes.io/service-name=" + words[0]})
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if hostname != "" && (endpoint.Hostname == nil || *endpoint.Hostname != hostname) {
				continue
			}
			if address, err := netip.ParseAddr(endpoint.Addresses[0]); err == nil && address.Is4() {
				addresses = append(addresses, address)
			}
		}
	}
	return addresses, nil
}
