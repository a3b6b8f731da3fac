package vcenter

import (
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// checkNames refuses a name that is taken, whoever may see what has it. vcsim takes most of them.
func (f *front) checkNames(c *call, request any) types.BaseMethodFault {
	switch request := request.(type) {
	case *types.Rename_Task:
		return f.checkRename(c.this, request.NewName)
	case *types.ReconfigVM_Task:
		if request.Spec.Name != "" {
			return f.checkRename(c.this, request.Spec.Name)
		}
	case *types.CreateVM_Task:
		return f.checkName(c.this, request.Config.Name)
	case *types.RegisterVM_Task:
		if request.Name != "" {
			return f.checkName(c.this, request.Name)
		}
	case *types.MoveIntoFolder_Task:
		for _, ref := range request.List {
			entity, ok := f.service.Context.Map.Get(ref).(mo.Entity)
			if !ok {
				return &types.ManagedObjectNotFound{Obj: ref}
			}
			if entity.Entity().Parent == nil || *entity.Entity().Parent == c.this {
				continue
			}
			if fault := f.checkName(c.this, entity.Entity().Name); fault != nil {
				return fault
			}
		}
	}
	return nil
}

func (f *front) checkRename(ref reference, name string) types.BaseMethodFault {
	ancestors := f.ancestors(ref)
	if entity, ok := f.service.Context.Map.Get(ref).(mo.Entity); len(ancestors) < 2 || !ok || entity.Entity().Name == name {
		return nil
	}
	return f.checkName(ancestors[1], name)
}

func (f *front) checkName(folder reference, name string) types.BaseMethodFault {
	if twin, taken := f.childNamed(folder, name); taken {
		return &types.DuplicateName{Name: name, Object: twin}
	}
	return nil
}
