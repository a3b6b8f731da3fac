// Package english has kubectl speak as it is written: to load its translations is a third of its start. It is a package of
// its own because it has to be set up before any that asks for a translation; Go sets up packages in the order of their paths.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
