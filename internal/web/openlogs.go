package web

import "sync"

const (
	// maxUserLogs limits the logs that a user has open at a time, and maxLogs those of all
	// users: each is a watch of a Secret, with a copy of the log.
	maxUserLogs = 10
	maxLogs     = 100
)

// openLogs counts the logs that are open.
type openLogs struct {
	mu  sync.Mutex
	all int
	of  map[*identity]int
}

func newOpenLogs() *openLogs { return &openLogs{of: map[*identity]int{}} }

// acquire counts another log. It returns why there must not be one more, or an empty
// string.
func (l *openLogs) acquire(user *identity) (refused string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.of[user] >= maxUserLogs:
		return "You have too many logs open: close one in another tab, and this one is shown."
	case l.all >= maxLogs:
		return "Too many users have logs open: this one is shown when another is closed."
	}
	l.all++
	l.of[user]++
	return ""
}

func (l *openLogs) release(user *identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[user]--; l.of[user] == 0 {
		delete(l.of, user)
	}
}
