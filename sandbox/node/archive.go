package node

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// unpackArchive reads an OCI archive, as `buildah push IMAGE oci-archive:FILE` writes it. Its blobs are laid into a folder.
func unpackArchive(file, folder string) (image, error) {
	in, err := os.Open(file)
	if err != nil {
		return image{}, err
	}
	defer in.Close()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return image{}, err
	}
	var index struct{ Manifests []descriptor }
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return image{}, fmt.Errorf("%s: %w", file, err)
		}
		name := path.Clean(header.Name)
		sum, isBlob := strings.CutPrefix(name, "blobs/sha256/")
		switch {
		case name == "index.json":
			err = json.NewDecoder(archive).Decode(&index)
		case isBlob && header.Typeflag == tar.TypeReg:
			_, err = appendTo(filepath.Join(folder, path.Base(sum)), archive)
		}
		if err != nil {
			return image{}, fmt.Errorf("%s: %s: %w", file, name, err)
		}
	}
	if len(index.Manifests) != 1 {
		return image{}, fmt.Errorf("%s: an OCI archive of one image is needed, not of %d", file, len(index.Manifests))
	}
	return archived(folder, index.Manifests[0])
}

// archived is the image whose manifest is described so, and whose blobs lie in a folder.
func archived(folder string, described descriptor) (image, error) {
	at := func(d descriptor) blob {
		name := path.Base(strings.TrimPrefix(d.Digest, "sha256:"))
		return blob{kind: d.MediaType, digest: d.Digest, size: d.Size, file: filepath.Join(folder, name)}
	}
	manifest := at(described)
	data, err := os.ReadFile(manifest.file)
	if err != nil {
		return image{}, err
	}
	var named struct {
		Config descriptor
		Layers []descriptor
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return image{}, fmt.Errorf("the manifest %s: %w", described.Digest, err)
	}
	blobs := []blob{at(named.Config)}
	for _, layer := range named.Layers {
		blobs = append(blobs, at(layer))
	}
	return image{manifest, blobs}, nil
}
