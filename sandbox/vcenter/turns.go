package vcenter

import (
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// turns are the clones that each host works on at a time. The rest wait, whoever asked for them, as with vCenter.
type turns struct {
	perHost int // 0: as many as there are

	mu    sync.Mutex
	hosts map[reference]*turn
}

type turn struct {
	places chan struct{}
	asked  int // those that work or wait
}

// take waits for a place on the host that a clone names, or on the one that fewest wait for, as DRS would choose. The clone gives it
// back when it ends. It begins when it was asked for, unless it had to wait.
func (f *front) takeTurn(asked time.Time, request *types.CloneVM_Task) (began time.Time, leave func()) {
	t := &f.turns
	if t.perHost == 0 {
		return asked, func() {}
	}
	host := t.join(f.hostsFor(request))
	select {
	case host.places <- struct{}{}:
		began = asked
	default:
		host.places <- struct{}{}
		began = time.Now()
	}
	return began, func() {
		<-host.places
		t.mu.Lock()
		defer t.mu.Unlock()
		host.asked--
	}
}

func (t *turns) join(hosts []reference) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts == nil {
		t.hosts = map[reference]*turn{}
	}
	for _, host := range hosts {
		if t.hosts[host] == nil {
			t.hosts[host] = &turn{places: make(chan struct{}, t.perHost)}
		}
	}
	fewest := slices.MinFunc(hosts, func(a, b reference) int { return t.hosts[a].asked - t.hosts[b].asked })
	t.hosts[fewest].asked++
	return t.hosts[fewest]
}

// hostsFor are the hosts that a clone may be made on.
func (f *front) hostsFor(request *types.CloneVM_Task) []reference {
	if host := request.Spec.Location.Host; host != nil {
		return []reference{*host}
	}
	var hosts []reference
	for _, entity := range f.service.Context.Map.All("HostSystem") {
		if host, ok := entity.(*simulator.HostSystem); ok {
			hosts = append(hosts, host.Self)
		}
	}
	return hosts
}
