package debian

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ulikunitz/xz"
)

// Suite is one suite of an archive, for example trixie-security of debian-security.
type Suite struct {
	// Archive is the directory of the archive on a mirror.
	Archive string
	Name    string
}

// Source is a mirror of Debian.
type Source struct {
	// Mirror is the address that contains the archives, for example
	// http://deb.debian.org.
	Mirror string
	// Keyring is the file with the keys that sign the archives.
	Keyring string
	Client  *http.Client
	// Now is the time at which signatures and indexes must be valid.
	Now time.Time
}

// indexFields are the fields of an index that a resolution needs.
var indexFields = []string{"Package", "Version", "Architecture", "Depends", "Pre-Depends", "Provides", "Filename", "SHA256", "Size"}

// Universe is all packages of one architecture, each in its newest version.
type Universe struct {
	// Date is the date of the newest suite.
	Date      time.Time
	packages  map[string]stanza
	providers map[string][]string
}

// Index reads the signed indexes of suites for one architecture.
func (s Source) Index(ctx context.Context, suites []Suite, architecture string) (*Universe, error) {
	u := &Universe{packages: map[string]stanza{}}
	for _, suite := range suites {
		base := s.Mirror + "/" + suite.Archive + "/dists/" + suite.Name
		sums, date, err := s.release(ctx, base+"/InRelease")
		if err != nil {
			return nil, err
		}
		if date.After(u.Date) {
			u.Date = date
		}
		name := "main/binary-" + architecture + "/Packages.xz"
		want, found := sums[name]
		if !found {
			return nil, fmt.Errorf("%s has no packages for %s", suite.Name, architecture)
		}
		// A mirror that is being updated has the file under its checksum first.
		content, err := s.get(ctx, base+"/main/binary-"+architecture+"/by-hash/SHA256/"+want)
		if err != nil {
			content, err = s.get(ctx, base+"/"+name)
		}
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			return nil, fmt.Errorf("%s/%s is not the file that is signed: the mirror is being updated or manipulated", base, name)
		}
		if err := u.add(suite.Archive, content); err != nil {
			return nil, fmt.Errorf("reading %s/%s: %w", base, name, err)
		}
	}
	u.provide()
	return u, nil
}

// archiveField holds the archive of a package. An index does not have this field.
const archiveField = "-Archive"

func (u *Universe) add(archive string, compressed []byte) error {
	r, err := xz.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return err
	}
	return readStanzas(r, indexFields, func(p stanza) {
		known, found := u.packages[p["Package"]]
		if !found || CompareVersions(p["Version"], known["Version"]) > 0 {
			p[archiveField] = archive
			u.packages[p["Package"]] = p
		}
	})
}

// release returns the checksums that a release file lists, after checking its signature.
func (s Source) release(ctx context.Context, url string) (sums map[string]string, date time.Time, err error) {
	text, err := s.get(ctx, url)
	if err != nil {
		return nil, date, err
	}
	signed, err := s.verify(text)
	if err != nil {
		return nil, date, fmt.Errorf("verifying %s: %w", url, err)
	}
	sums = map[string]string{}
	var until string
	err = readStanzas(bytes.NewReader(signed), []string{"Date", "Valid-Until", "SHA256"}, func(p stanza) {
		date, err = time.Parse(time.RFC1123, p["Date"])
		until = p["Valid-Until"]
		for line := range strings.Lines(p["SHA256"]) {
			if words := strings.Fields(line); len(words) == 3 {
				sums[words[2]] = words[0]
			}
		}
	})
	if err != nil {
		return nil, date, fmt.Errorf("reading %s: %w", url, err)
	}
	if until != "" {
		end, err := time.Parse(time.RFC1123, until)
		if err != nil {
			return nil, date, fmt.Errorf("reading %s: %w", url, err)
		}
		if s.Now.After(end) {
			return nil, date, fmt.Errorf("%s expired on %s: use another mirror", url, until)
		}
	}
	return sums, date, nil
}

// verify returns the text that a key of the keyring has signed.
func (s Source) verify(text []byte) ([]byte, error) {
	file, err := os.Open(s.Keyring)
	if err != nil {
		return nil, fmt.Errorf("reading the keyring (package debian-archive-keyring): %w", err)
	}
	defer file.Close()
	keys, err := openpgp.ReadKeyRing(file)
	if err != nil {
		return nil, fmt.Errorf("reading the keyring: %w", err)
	}
	block, _ := clearsign.Decode(text)
	if block == nil {
		return nil, errors.New("not signed")
	}
	if _, err := block.VerifySignature(keys, nil); err != nil {
		return nil, err
	}
	return block.Plaintext, nil
}

func (s Source) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: %s", url, resp.Status)
	}
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", url, err)
	}
	return content, nil
}
