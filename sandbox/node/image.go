package node

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// image is what a registry serves of one image: a manifest, and what the manifest names.
type image struct {
	manifest blob
	blobs    []blob
}

// blob is a part of an image, in memory or in a file.
type blob struct {
	kind, digest string
	size         int64
	data         []byte
	file         string
}

// descriptor is how manifests name a blob.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

func (b blob) descriptor() descriptor { return descriptor{b.kind, b.digest, b.size} }

// pack makes an image of a folder. Its one layer is written to a file.
func pack(folder, layerFile string, entrypoint, command []string) (image, error) {
	layer, err := packLayer(folder, layerFile)
	if err != nil {
		return image{}, err
	}
	config, err := jsonBlob(configType, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{
			"Entrypoint": entrypoint, "Cmd": command,
			"Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layer.digest}},
	})
	if err != nil {
		return image{}, err
	}
	manifest, err := jsonBlob(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": config.descriptor(), "layers": []descriptor{layer.descriptor()},
	})
	return image{manifest, []blob{config, layer}}, err
}

func jsonBlob(kind string, value any) (blob, error) {
	data, err := json.Marshal(value)
	sum := sha256.Sum256(data)
	return blob{kind: kind, digest: digest(sum[:]), size: int64(len(data)), data: data}, err
}

// packLayer writes the folder as a tar in which everything is root's and nothing has a date: the same content gives the
// same digest.
func packLayer(folder, file string) (blob, error) {
	out, err := os.Create(file)
	if err != nil {
		return blob{}, err
	}
	sum := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(out, sum))
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		return packEntry(archive, folder, path, entry)
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		return blob{}, errors.Join(err, out.Close())
	}
	size, err := out.Seek(0, io.SeekCurrent)
	return blob{kind: layerType, digest: digest(sum.Sum(nil)), size: size, file: file}, errors.Join(err, out.Close())
}

func packEntry(archive *tar.Writer, folder, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	var target string
	if entry.Type() == fs.ModeSymlink {
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	from, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(folder, path)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: from.Typeflag, Name: filepath.ToSlash(name), Linkname: target, Mode: from.Mode, Size: from.Size}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(archive, in)
	return err
}

func digest(sum []byte) string { return "sha256:" + hex.EncodeToString(sum) }
