package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/appthrust/capt/dev/image/debian"
)

// user is the unprivileged user that the images run as.
const user = 65532

var passwd = fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\ncapt:x:%d:%d:capt:/tmp:/sbin/nologin\n", user, user)

// Debian's release that packages come from, its suites, and the archive of security updates.
const (
	debianRelease   = "13"
	securityArchive = "debian-security"
)

var debianSuites = []string{"debian/trixie", securityArchive + "/trixie-security"}

// Packages of the images. The runner has all pinned packages: those that are named here and
// what they depend on. The manager has only those that are named: they need no others.
// Left out is what maintainer scripts need, which never run in an image, and Perl, without
// which git clones and fetches, and its manual, on whose version git depends.
var (
	managerPackages   = []string{"base-files", "ca-certificates"}
	runnerPackages    = append(slices.Clone(managerPackages), "busybox-static", "git", "openssh-client")
	omittedPackages   = []string{"git-man"}
	installedPackages = []string{
		"adduser", "awk", "debconf", "init-system-helpers", "liberror-perl", "libsasl2-modules-db", "openssl",
		"openssl-provider-legacy", "passwd", "perl",
	}
)

// architectures maps Go's architectures to Debian's.
var architectures = map[string]string{"amd64": "amd64", "arm64": "arm64", "s390x": "s390x", "ppc64le": "ppc64el"}

// applets are the programs that BusyBox provides: sh and what git's shell scripts and
// local-exec provisioners usually call.
var applets = strings.Fields(`[ awk base64 basename cat chmod cp cut date diff dirname echo env expr false find
	grep gunzip gzip head hostname id kill ln ls md5sum mkdir mktemp mv nproc od printf ps pwd readlink realpath
	rm rmdir sed seq sh sha256sum sleep sort stat tail tar tee test timeout touch tr true uname uniq unzip wc which xargs`)

// unwanted are the files that are left out: documentation except copyright notices,
// translations, services, Perl, servers, and the parts of git that need Perl.
var unwanted = []string{
	"boot", "etc/bash_completion.d", "etc/init.d", "etc/issue", "etc/issue.net", "etc/update-motd.d", "home", "usr/games", "usr/include",
	"usr/lib/*/gconv", "usr/lib/*/libmemusage.so", "usr/lib/*/libpcprofile.so",
	"usr/lib/git-core/git-add--interactive", "usr/lib/git-core/git-archimport", "usr/lib/git-core/git-cvs*", "usr/lib/git-core/git-daemon",
	"usr/lib/git-core/git-filter-branch", "usr/lib/git-core/git-http-backend", "usr/lib/git-core/git-http-push", "usr/lib/git-core/git-imap-send",
	"usr/lib/git-core/git-instaweb", "usr/lib/git-core/git-send-email", "usr/lib/git-core/git-shell", "usr/lib/git-core/git-svn",
	"usr/lib/git-core/mergetools", "usr/lib/git-core/scalar", "usr/bin/git-shell", "usr/bin/scalar", "usr/bin/ssh-argv0",
	"usr/lib/openssh/ssh-keysign", "usr/lib/systemd", "usr/lib/tmpfiles.d", "usr/lib/sysusers.d", "usr/sbin/update-ca-certificates",
	"usr/share/apport", "usr/share/base-files", "usr/share/bash-completion", "usr/share/bug", "usr/share/dict", "usr/share/doc-base",
	"usr/share/git-core/contrib", "usr/share/gitweb", "usr/share/info", "usr/share/initramfs-tools", "usr/share/lintian", "usr/share/locale",
	"usr/share/man", "usr/share/perl5", "usr/src", "usr/local/share/ca-certificates", "var/backups", "var/lib/git", "var/local", "var/spool",
}

// keep reports whether a file of a package belongs into an image.
func keep(name string) bool {
	if inside, found := strings.CutPrefix(name, "usr/share/doc/"); found {
		return path.Base(inside) == "copyright"
	}
	for ; name != "."; name = path.Dir(name) {
		for _, pattern := range unwanted {
			if matched, _ := path.Match(pattern, name); matched {
				return false
			}
		}
	}
	return true
}

// baseTree returns the files of packages, and those that their maintainer scripts would
// generate.
func baseTree(ctx context.Context, packages []debian.Package, cache debian.Cache, at time.Time) (tree, error) {
	t := tree{}
	for _, p := range packages {
		path, err := cache.Fetch(ctx, p, at)
		if err != nil {
			return nil, err
		}
		deb, err := debian.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		if err := deb.Files(ctx, t.unpack); err != nil {
			return nil, err
		}
		// Scanners find the packages here, as in other images without dpkg.
		t.add("var/lib/dpkg/status.d/"+p.Name, deb.Control, at)
		t.add("var/lib/dpkg/status.d/"+p.Name+".md5sums", deb.MD5Sums, at)
	}
	bundle, err := t.certificates()
	if err != nil {
		return nil, err
	}
	t.add("etc/ssl/certs/ca-certificates.crt", bundle, at)
	t.add("etc/passwd", passwd, at)
	t.add("etc/group", fmt.Appendf(nil, "root:x:0:\ncapt:x:%d:\n", user), at)
	t.add("etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nhosts: files dns\n"), at)
	t.addDirectory("tmp", 0o1777, at)
	if _, found := t["usr/bin/busybox"]; found {
		for _, name := range applets {
			t.addLink("usr/bin/"+name, "busybox", at)
		}
	}
	if _, found := t["usr/lib/git-core/git"]; found {
		// The package contains the program twice.
		t.addLink("usr/lib/git-core/git", "../../bin/git", at)
	}
	t.removeEmpty()
	t.addParents(at)
	return t, nil
}

// unpack adds a file of a package. Top-level directories such as lib are links to those
// of usr, so what a package has there is added to usr.
func (t tree) unpack(header *tar.Header, r io.Reader) error {
	name := merged(header.Name)
	if !keep(name) {
		return nil
	}
	f := file{kind: header.Typeflag, mode: header.Mode & 0o1777, time: header.ModTime, link: header.Linkname}
	switch header.Typeflag {
	case tar.TypeDir:
		if _, found := t[name]; found {
			return nil
		}
	case tar.TypeReg:
		var err error
		if f.content, err = io.ReadAll(r); err != nil {
			return err
		}
	case tar.TypeLink:
		target, found := t[merged(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"))]
		if !found {
			return fmt.Errorf("%s is a hard link to the missing file %s", name, header.Linkname)
		}
		f = target
	case tar.TypeSymlink:
		f.mode = 0o777
	default:
		return fmt.Errorf("%s has the unexpected type %q", name, header.Typeflag)
	}
	t[name] = f
	return nil
}

func merged(name string) string {
	top, rest, found := strings.Cut(name, "/")
	if found && slices.Contains([]string{"bin", "sbin", "lib", "lib64"}, top) {
		return "usr/" + top + "/" + rest
	}
	return name
}

// certificates returns the bundle that update-ca-certificates would write.
func (t tree) certificates() ([]byte, error) {
	var bundle []byte
	for _, name := range t.names() {
		if strings.HasPrefix(name, "usr/share/ca-certificates/") && strings.HasSuffix(name, ".crt") {
			bundle = append(bundle, t[name].content...)
			if !strings.HasSuffix(string(bundle), "\n") {
				bundle = append(bundle, '\n')
			}
			// The bundle has the same content.
			delete(t, name)
		}
	}
	if bundle == nil {
		return nil, fmt.Errorf("the packages contain no certificates")
	}
	return bundle, nil
}

// removeEmpty removes directories below usr and var that have become empty.
func (t tree) removeEmpty() {
	used := map[string]bool{}
	names := t.names()
	slices.Reverse(names)
	for _, name := range names {
		top, _, _ := strings.Cut(name, "/")
		if t[name].kind == tar.TypeDir && !used[name] && (top == "usr" || top == "var") && name != "var/tmp" {
			delete(t, name)
			continue
		}
		used[path.Dir(name)] = true
	}
}
