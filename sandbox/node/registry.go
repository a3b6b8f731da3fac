package node

import (
	"bytes"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// registry serves images that were made from folders or pushed, as container runtimes pull them. Whichever registry a pod
// names, this one is asked, so the name that counts is the one after the registry's.
type registry struct {
	layers  string
	recipes []*recipe
	pushed  *pushed
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path, ok := strings.CutPrefix(req.URL.Path, "/v2/")
	if !ok {
		http.NotFound(w, req)
		return
	}
	if path == "" {
		_, _ = w.Write([]byte("{}"))
		return
	}
	isPull := req.Method == http.MethodGet || req.Method == http.MethodHead
	if !isPull {
		r.pushed.take(w, req, path)
		return
	}
	words := strings.Split(path, "/")
	if len(words) < 3 {
		http.NotFound(w, req)
		return
	}
	// Docker's own images have this before their names, whether it is written or not.
	name := strings.TrimPrefix(strings.Join(words[:len(words)-2], "/"), "library/")
	kind, reference := words[len(words)-2], words[len(words)-1]
	found, err := r.find(name, kind, reference)
	switch {
	case err != nil:
		log.Printf("image %s: %v", name, err)
		refuse(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
	case found == nil:
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "the sandbox has no such image: push it here, or add it with 'sandbox up --image NAME=FOLDER'")
	default:
		found.serve(w, req)
	}
}

// find looks for a manifest by its tag or digest, or for a blob by its digest.
func (r *registry) find(name, kind, reference string) (*blob, error) {
	if found, err := r.pushed.find(name, kind, reference); found != nil || err != nil {
		return found, err
	}
	for _, recipe := range r.recipes {
		known, tag, _ := cutLast(recipe.name, ":")
		byDigest := strings.HasPrefix(reference, "sha256:")
		if known != name || (tag != reference && !byDigest) {
			continue
		}
		made, err := recipe.make(r.layers)
		if err != nil {
			return nil, err
		}
		if kind == "manifests" && (!byDigest || made.manifest.digest == reference) {
			return &made.manifest, nil
		}
		for _, blob := range made.blobs {
			if kind == "blobs" && blob.digest == reference {
				return &blob, nil
			}
		}
	}
	return nil, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

func (b *blob) serve(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", b.kind)
	w.Header().Set("Docker-Content-Digest", b.digest)
	if b.file == "" {
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b.data))
		return
	}
	file, err := os.Open(b.file)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
		return
	}
	defer file.Close()
	http.ServeContent(w, req, "", time.Time{}, file)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
