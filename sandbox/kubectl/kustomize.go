package main

import (
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/kustomize/v5/commands/build"
	"sigs.k8s.io/kustomize/kustomize/v5/commands/create"
	"sigs.k8s.io/kustomize/kustomize/v5/commands/edit"
	"sigs.k8s.io/kustomize/kustomize/v5/commands/version"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize has the commands of the program of that name that manifests are made with. kubectl has all of it but a few lines.
func kustomize() *cobra.Command {
	files, parts := filesys.MakeFsOnDisk(), provider.NewDefaultDepProvider()
	c := &cobra.Command{
		Use: konfig.ProgramName, Short: "Manages declarative configuration of Kubernetes",
		SilenceUsage: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	c.AddCommand(
		build.NewCmdBuild(files, build.MakeHelp(konfig.ProgramName, "build"), os.Stdout),
		create.NewCmdCreate(files, parts.GetResourceFactory()),
		edit.NewCmdEdit(files, parts.GetFieldValidator(), parts.GetResourceFactory(), os.Stdout),
		version.NewCmdVersion(os.Stdout),
	)
	return c
}
