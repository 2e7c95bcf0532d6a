package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// Shell says that a user works with the state of a workspace by hand.
type Shell struct {
	// ID identifies the shell. It is the holder of the lock.
	ID string `json:"id"`
	// UID is that of the workspace. A copy of the workspace has no shell.
	UID string `json:"uid"`
	// Host is the machine of the shell, and Reason what the user has written about it.
	Host   string `json:"host,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// shellID matches the IDs of shells. A run cannot have one.
var shellID = regexp.MustCompile(`^shell-[a-z0-9]{1,32}$`)

// ParseShell parses the annotation of a shell.
func ParseShell(text string) (*Shell, error) {
	shell := &Shell{}
	if err := json.Unmarshal([]byte(text), shell); err != nil {
		return nil, fmt.Errorf("parsing a shell: %w", err)
	}
	if !shellID.MatchString(shell.ID) {
		return nil, errors.New("the id of a shell is shell- and at most 32 letters and digits")
	}
	return shell, nil
}
