package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"drover.dev/sandbox/node"
)

// worker is the sandbox's node, from the side of its cluster.
type worker struct {
	keeper *part
	place  node.Place
	plane  *controlPlane
}

// startNode makes the node, which then gets ready beside the control plane, and tells the control plane where it is.
func (s *supervisor) startNode(ctx context.Context, plane *controlPlane) (*worker, error) {
	args := []string{"--dir=" + s.dir}
	for _, image := range s.images {
		args = append(args, "--image="+image)
	}
	keeper := newPart(s.dir, "node", "node-keeper", args...)
	// The keeper cleans up after its node, so it outlives a supervisor that is killed, and has the folder locked meanwhile.
	keeper.cmd.SysProcAttr = nil
	keeper.cmd.ExtraFiles = []*os.File{os.NewFile(lockFD, "lock")}
	orders, end, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	keeper.cmd.Stdin, keeper.orders = orders, end
	out, err := keeper.startReporting()
	if err != nil {
		return nil, err
	}
	s.add(keeper)
	w := &worker{keeper: keeper, plane: plane}
	err = keeper.waitReady(ctx, func(context.Context) error { return json.NewDecoder(out).Decode(&w.place) })
	plane.place = &w.place
	return w, err
}

// join has the node join the cluster.
func (w *worker) join(s *supervisor) error {
	scheduler, err := w.plane.kubeconfigOf("kube-scheduler", "system:kube-scheduler")
	if err != nil {
		return err
	}
	p, err := startPart(s.dir, "kube-scheduler", "kube-scheduler", "--kubeconfig="+scheduler, "--secure-port=0", "--leader-elect=false")
	if err != nil {
		return err
	}
	s.add(p)
	if err := w.identify(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w.keeper.orders, "join"); err != nil {
		return w.keeper.failure(err.Error())
	}
	return nil
}

// wait returns once pods can run on the node.
func (w *worker) wait(ctx context.Context, s *supervisor) error {
	if err := w.keeper.waitReady(ctx, w.ready); err != nil {
		return err
	}
	s.ready("node " + w.place.Name())
	return nil
}

// identify makes what the kubelet and kube-proxy show to the API server, and the kubelet to those who exec and read logs.
func (w *worker) identify() error {
	name := w.place.Name()
	if _, err := w.plane.kubeconfigOf("kubelet", "system:node:"+name, "system:nodes"); err != nil {
		return err
	}
	if _, err := w.plane.kubeconfigOf("kube-proxy", "system:kube-proxy"); err != nil {
		return err
	}
	_, err := w.plane.ca.server("kubelet", name, w.place.Node().String())
	return err
}

// admitPushes tells container tools of the node's registry, which has no certificate.
func (w *worker) admitPushes(dir string, env *exports) error {
	registry := w.place.Registry().String()
	path := filepath.Join(dir, "registries.conf")
	env.set("NODE_REGISTRY", registry)
	env.set("CONTAINERS_REGISTRIES_CONF", path)
	return os.WriteFile(path, fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", registry), 0o600)
}

// ready tells whether the node is ready, and the scheduler may use it.
func (w *worker) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.plane.server+"/api/v1/nodes/"+w.place.Name(), nil)
	if err != nil {
		return err
	}
	res, err := w.plane.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var found struct {
		Spec   struct{ Taints []struct{ Key string } }
		Status struct{ Conditions []condition }
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&found); err != nil {
		return err
	}
	i := slices.IndexFunc(found.Status.Conditions, func(c condition) bool { return c.Type == "Ready" })
	switch {
	case i < 0:
		return fmt.Errorf("the node has not joined: %s", res.Status)
	case found.Status.Conditions[i].Status != "True":
		return fmt.Errorf("the node is not ready: %s", found.Status.Conditions[i].Message)
	case len(found.Spec.Taints) > 0:
		return fmt.Errorf("the node is still tainted: %v", found.Spec.Taints)
	}
	return nil
}

type condition struct{ Type, Status, Message string }
