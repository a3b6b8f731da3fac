package node

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A manifest is small; what is larger is no manifest.
const manifestLimit = 4 << 20

// pushed holds what was pushed, as container tools do it: blobs first, each in an upload of its own, then the manifest that names
// them. Blobs are told apart by their digests alone, whichever image they are of.
type pushed struct {
	dir string

	mutex     sync.Mutex
	manifests map[string]blob // by NAME:TAG and by NAME@DIGEST
}

func newPushed(dir string) *pushed { return &pushed{dir: dir, manifests: map[string]blob{}} }

// find looks for a manifest or a blob. It returns nothing for what was never pushed.
func (p *pushed) find(name, kind, reference string) (*blob, error) {
	if kind == "manifests" {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if found, ok := p.manifests[manifestKey(name, reference)]; ok {
			return &found, nil
		}
		return nil, nil
	}
	sum, ok := strings.CutPrefix(reference, "sha256:")
	if _, err := hex.DecodeString(sum); !ok || err != nil {
		return nil, nil
	}
	file := filepath.Join(p.dir, sum)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &blob{kind: "application/octet-stream", digest: reference, size: info.Size(), file: file}, nil
}

func manifestKey(name, reference string) string {
	if strings.HasPrefix(reference, "sha256:") {
		return name + "@" + reference
	}
	return name + ":" + reference
}

// take takes a part of an image. The path is what follows /v2/.
func (p *pushed) take(w http.ResponseWriter, req *http.Request, path string) {
	var err error
	if name, upload, ok := strings.Cut(path, "/blobs/uploads/"); ok {
		err = p.takeBlob(w, req, name, upload)
	} else if name, reference, ok := strings.Cut(path, "/manifests/"); ok && req.Method == http.MethodPut {
		err = p.takeManifest(w, req, name, reference)
	} else {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "images can be pulled and pushed here, and nothing else")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "UNKNOWN", err.Error())
	}
}

// takeBlob begins an upload, adds to it, or ends it, which makes it a blob.
func (p *pushed) takeBlob(w http.ResponseWriter, req *http.Request, name, upload string) error {
	if upload == "" && req.Method == http.MethodPost {
		upload = rand.Text()
		if err := os.MkdirAll(p.dir, 0o755); err != nil {
			return err
		}
	} else if upload == "" || strings.ContainsAny(upload, "/.") {
		return errors.New("there is no such upload")
	}
	file := filepath.Join(p.dir, "upload-"+upload)
	size, err := appendTo(file, req.Body)
	if err != nil {
		return err
	}
	digest := req.URL.Query().Get("digest")
	if digest == "" || req.Method == http.MethodPatch {
		w.Header().Set("Location", "/v2/"+name+"/blobs/uploads/"+upload)
		w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := p.keepBlob(file, digest); err != nil {
		return err
	}
	created(w, name, "blobs", digest)
	return nil
}

func appendTo(path string, more io.Reader) (int64, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(file, more)
	size, atEnd := file.Seek(0, io.SeekEnd)
	return size, errors.Join(err, atEnd, file.Close())
}

// keepBlob gives a whole upload the name of its digest.
func (p *pushed) keepBlob(upload, expected string) error {
	file, err := os.Open(upload)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := digest(sum.Sum(nil)); got != expected {
		return fmt.Errorf("what was pushed as %s is %s", expected, got)
	}
	return os.Rename(upload, filepath.Join(p.dir, hex.EncodeToString(sum.Sum(nil))))
}

func (p *pushed) takeManifest(w http.ResponseWriter, req *http.Request, name, reference string) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, manifestLimit))
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return errors.New("the manifest is no JSON")
	}
	sum := sha256.Sum256(data)
	manifest := blob{kind: req.Header.Get("Content-Type"), digest: digest(sum[:]), size: int64(len(data)), data: data}
	name = strings.TrimPrefix(name, "library/")
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.manifests[manifestKey(name, reference)] = manifest
	p.manifests[manifestKey(name, manifest.digest)] = manifest
	created(w, name, "manifests", manifest.digest)
	return nil
}

func created(w http.ResponseWriter, name, kind, digest string) {
	w.Header().Set("Location", "/v2/"+name+"/"+kind+"/"+digest)
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}
