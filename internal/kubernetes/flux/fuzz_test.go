package flux

import (
	"net/url"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Users who can edit a source may also be able to edit the address in its status. Whatever it
// is, the manager sends a request only to the directory of the source.
func FuzzArtifactAddress(f *testing.F) {
	for _, seed := range []string{
		"http://source-controller/gitrepository/team/app/a.tar.gz", "http://source-controller/gitrepository/other/app/a.tar.gz", "",
		"http://source-controller/gitrepository/team/app/../../other/app/a", "http://source-controller/gitrepository/team/app/%2e%2e/b",
		"http://evil@source-controller/gitrepository/team/app/a", "http://source-controller.:80/gitrepository/team/app/a", "http://source-controller\\@evil/gitrepository/team/app/a",
		"http://source-controller/gitrepository/team/app/a#b", "http://source-controller/gitrepository/team/app//a", "HTTP://SOURCE-CONTROLLER/gitrepository/team/app/a",
	} {
		f.Add(seed)
	}
	fetcher := &Fetcher{Hosts: []string{"source-controller"}}
	f.Fuzz(func(t *testing.T, address string) {
		if fetcher.check("GitRepository", client.ObjectKey{Namespace: "team", Name: "app"}, address) != nil {
			return
		}
		sent, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if host := strings.TrimSuffix(strings.ToLower(sent.Hostname()), "."); host != "source-controller" || sent.User != nil {
			t.Fatalf("%q is sent to %s", address, sent.Host)
		}
		if !strings.HasPrefix(sent.Path, "/gitrepository/team/app/") || strings.Contains(sent.Path, "/../") || strings.HasSuffix(sent.Path, "/..") {
			t.Fatalf("%q leaves the directory of the source", address)
		}
	})
}
