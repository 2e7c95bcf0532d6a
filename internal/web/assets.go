package web

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

// assets holds the page that make ui builds into assets/dist. Without it the
// placeholder is served.
//
//go:embed all:assets
var assets embed.FS

// Built reports whether the page is built into the program.
func Built() bool {
	_, err := fs.Stat(assets, "assets/dist/index.html")
	return err == nil
}

// serveAsset serves the files of the page. Every other path is a view of the page,
// which reads it in the browser.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, Problem{Error: "The page can only be read."})
		return
	}
	name, file := strings.CutPrefix(r.URL.Path, "/assets/")
	if !file {
		w.Header().Set("Cache-Control", "no-cache")
		serveDocument(w, r)
		return
	}
	if _, err := fs.Stat(assets, "assets/dist/assets/"+name); err != nil || name == "" {
		http.NotFound(w, r)
		return
	}
	// The names of these files contain their hash.
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, assets, "assets/dist/assets/"+name)
}

func serveDocument(w http.ResponseWriter, r *http.Request) {
	name := "assets/placeholder.html"
	if Built() {
		name = "assets/dist/index.html"
	}
	content, err := assets.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(content)
}
