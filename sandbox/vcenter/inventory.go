package vcenter

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"

	// Storage policies, without which Terraform can't log in.
	_ "github.com/vmware/govmomi/pbm/simulator"
	// The REST endpoint, for tags.
	_ "github.com/vmware/govmomi/vapi/simulator"
)

const (
	folderName   = "vm-operator"
	templateName = "vm-operator-template"
)

// Inventory says what a new vCenter has, and how long its tasks take.
type Inventory struct {
	Hosts            int
	Machines         int
	CloneDelay       time.Duration
	PowerDelay       time.Duration
	ClonesPerHost    int
	Seed             bool
	SecondDatacenter bool
	SecondTemplate   bool
}

// Register adds the inventory's flags to a program's.
func (i *Inventory) Register(f *flag.FlagSet) {
	f.IntVar(&i.Hosts, "hosts", 4, "ESXi hosts in each vCenter's cluster")
	f.IntVar(&i.Machines, "machines", 0, "machines that run in each cluster, DC0_C0_RP0_VM1 and so on")
	f.DurationVar(&i.CloneDelay, "clone-delay", 0, "how long a clone takes, e.g. 3s")
	f.DurationVar(&i.PowerDelay, "power-delay", 0, "how long powering on or off takes, e.g. 500ms")
	f.IntVar(&i.ClonesPerHost, "clones-per-host", 0, "how many clones a host works on at a time, while the others wait; 0: all")
	f.BoolVar(&i.Seed, "seed-inventory", true, "make DC0, its cluster, the folder vm-operator and the template vm-operator-template")
	f.BoolVar(&i.SecondDatacenter, "second-datacenter", false, "add a second datacenter, DC1")
	f.BoolVar(&i.SecondTemplate, "second-template", false, "add a second template of the same name, in the folder elsewhere")
}

// Args are the flags that give this inventory.
func (i Inventory) Args() []string {
	return []string{
		fmt.Sprintf("--hosts=%d", i.Hosts),
		fmt.Sprintf("--machines=%d", i.Machines),
		fmt.Sprintf("--clone-delay=%s", i.CloneDelay),
		fmt.Sprintf("--power-delay=%s", i.PowerDelay),
		fmt.Sprintf("--clones-per-host=%d", i.ClonesPerHost),
		fmt.Sprintf("--seed-inventory=%t", i.Seed),
		fmt.Sprintf("--second-datacenter=%t", i.SecondDatacenter),
		fmt.Sprintf("--second-template=%t", i.SecondTemplate),
	}
}

// Check says what can't be asked for.
func (i Inventory) Check() error {
	switch {
	case i.Hosts < 1 || i.Hosts > 1000:
		return fmt.Errorf("--hosts %d: give 1 to 1000", i.Hosts)
	case i.Machines < 0 || i.Machines > 5000:
		return fmt.Errorf("--machines %d: give 0 to 5000", i.Machines)
	case i.CloneDelay < 0:
		return fmt.Errorf("--clone-delay %s: a delay can't be negative", i.CloneDelay)
	case i.PowerDelay < 0:
		return fmt.Errorf("--power-delay %s: a delay can't be negative", i.PowerDelay)
	case i.ClonesPerHost < 0:
		return fmt.Errorf("--clones-per-host %d: give 0 for all, or how many", i.ClonesPerHost)
	case !i.Seed && (i.SecondDatacenter || i.SecondTemplate):
		return errors.New("--second-datacenter and --second-template add to the seed inventory: leave --seed-inventory on")
	}
	return nil
}

// create makes the simulator and fills it.
func (i Inventory) create() (*simulator.Service, error) {
	model := simulator.VPX()
	model.ServiceContent.About.InstanceUuid = uuid.NewString()
	model.Host = 0 // a standalone host would bring a second default resource pool
	model.ClusterHost = i.Hosts
	model.Machine = 1 + i.Machines // the first becomes the template
	switch {
	case !i.Seed:
		model.Datacenter = 0
	case i.SecondDatacenter:
		model.Datacenter = 2
	}
	if err := model.Create(); err != nil {
		return nil, fmt.Errorf("making the inventory: %w", err)
	}
	model.Service.RegisterEndpoints = true
	model.Service.NewServer() // sets up the handlers; the front calls them itself
	if i.Seed {
		if err := i.seed(model.Service); err != nil {
			return nil, fmt.Errorf("making the seed inventory: %w", err)
		}
	}
	simulator.TaskDelay.MethodDelay = map[string]int{
		"CloneVm":  int(i.CloneDelay.Milliseconds() / 2), // the front waits for the rest
		"PowerOn":  int(i.PowerDelay.Milliseconds()),
		"PowerOff": int(i.PowerDelay.Milliseconds()),
		// Without this, nobody can read an object while a delayed task holds it.
		"LockHandoff": 0,
	}
	return model.Service, nil
}

func (i Inventory) seed(service *simulator.Service) error {
	ctx := context.Background()
	client, err := vim25.NewClient(ctx, service)
	if err != nil {
		return err
	}
	finder := find.NewFinder(client)
	dcs, err := finder.DatacenterList(ctx, "*")
	if err != nil {
		return err
	}
	for _, dc := range dcs {
		finder.SetDatacenter(dc)
		folder, machine, err := folderAndMachine(ctx, finder, dc)
		if err != nil {
			return err
		}
		if dc.Name() != "DC0" {
			if err := discard(ctx, machine); err != nil {
				return err
			}
			continue
		}
		if err := makeTemplate(ctx, machine, folder); err != nil {
			return err
		}
		if i.SecondTemplate {
			if err := copyTemplate(ctx, finder, dc, machine); err != nil {
				return err
			}
		}
	}
	return nil
}

func folderAndMachine(ctx context.Context, finder *find.Finder, dc *object.Datacenter) (*object.Folder, *object.VirtualMachine, error) {
	folders, err := dc.Folders(ctx)
	if err != nil {
		return nil, nil, err
	}
	folder, err := folders.VmFolder.CreateFolder(ctx, folderName)
	if err != nil {
		return nil, nil, err
	}
	machine, err := finder.VirtualMachine(ctx, dc.Name()+"_C0_RP0_VM0")
	return folder, machine, err
}

func makeTemplate(ctx context.Context, machine *object.VirtualMachine, folder *object.Folder) error {
	spec := types.VirtualMachineConfigSpec{Name: templateName, NumCPUs: 1, MemoryMB: 1024}
	return inOrder(
		func() error { return powerOff(ctx, machine) },
		func() error { return finish(ctx)(machine.Reconfigure(ctx, spec)) },
		func() error {
			return finish(ctx)(folder.MoveInto(ctx, []types.ManagedObjectReference{machine.Reference()}))
		},
		func() error { return machine.MarkAsTemplate(ctx) },
	)
}

// copyTemplate makes a second template of the first one's name, in another folder.
func copyTemplate(ctx context.Context, finder *find.Finder, dc *object.Datacenter, template *object.VirtualMachine) error {
	folders, err := dc.Folders(ctx)
	if err != nil {
		return err
	}
	elsewhere, err := folders.VmFolder.CreateFolder(ctx, "elsewhere")
	if err != nil {
		return err
	}
	pool, err := finder.DefaultResourcePool(ctx)
	if err != nil {
		return err
	}
	ref := pool.Reference()
	spec := types.VirtualMachineCloneSpec{Location: types.VirtualMachineRelocateSpec{Pool: &ref}, Template: true}
	return finish(ctx)(template.Clone(ctx, elsewhere, templateName, spec))
}

func discard(ctx context.Context, machine *object.VirtualMachine) error {
	return inOrder(
		func() error { return powerOff(ctx, machine) },
		func() error { return finish(ctx)(machine.Destroy(ctx)) },
	)
}

func powerOff(ctx context.Context, machine *object.VirtualMachine) error {
	return finish(ctx)(machine.PowerOff(ctx))
}

// finish waits for a task that was just submitted.
func finish(ctx context.Context) func(*object.Task, error) error {
	return func(task *object.Task, err error) error {
		if err != nil {
			return err
		}
		return task.Wait(ctx)
	}
}

func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
