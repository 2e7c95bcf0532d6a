package web

import "strings"

// makeRoom ends sessions until there is room for another one. It returns false if there
// is none.
func (l *logins) makeRoom(session *userSession) bool {
	own := func(s *userSession) bool { return s.name() == session.name() }
	for {
		_, known := l.users[session.token]
		sessions, tokens := l.count(own)
		switch {
		case sessions >= maxNameSessions:
			l.endLocked(l.idlest(own))
		case !known && tokens >= maxNameTokens:
			l.endToken(l.idlest(own).token)
		case len(l.sessions) >= maxUserSessions || !known && len(l.users) >= maxUsers:
			victim := l.victim()
			if victim == nil {
				return false
			}
			l.endToken(victim.token)
		default:
			return true
		}
	}
}

// name returns what the limits of a user count: his name, or his token if he may not ask
// for his name.
func (s *userSession) name() string {
	if s.user == "" {
		return string(s.token[:])
	}
	return s.user
}

// owner returns who has a user name: a user has one, and a user of a namespace as many
// service accounts as he creates.
func (s *userSession) owner() string {
	if account, found := strings.CutPrefix(s.name(), serviceAccount); found {
		namespace, _, _ := strings.Cut(account, ":")
		return serviceAccount + namespace
	}
	return s.name()
}

// count returns the number of the sessions that match, and of their tokens.
func (l *logins) count(match func(*userSession) bool) (sessions, tokens int) {
	seen := map[digest]struct{}{}
	for _, s := range l.sessions {
		if match(s) {
			sessions++
			seen[s.token] = struct{}{}
		}
	}
	return sessions, len(seen)
}

// victim returns a session that makes room for another user, or nil. Owners with several
// tokens lose one, used or not, so that no user can lock the others out; otherwise it is a
// session that is not in use.
func (l *logins) victim() *userSession {
	tokens := map[string]map[digest]struct{}{}
	most := 1
	for _, s := range l.sessions {
		if tokens[s.owner()] == nil {
			tokens[s.owner()] = map[digest]struct{}{}
		}
		tokens[s.owner()][s.token] = struct{}{}
		most = max(most, len(tokens[s.owner()]))
	}
	return l.idlest(func(s *userSession) bool {
		return len(tokens[s.owner()]) == most && (most > 1 || s.active == 0)
	})
}

// idlest returns the session that was not used for the longest time, or nil. Those with a
// page come last.
func (l *logins) idlest(match func(*userSession) bool) *userSession {
	var idlest *userSession
	for _, s := range l.sessions {
		if match(s) && (idlest == nil || before(s, idlest)) {
			idlest = s
		}
	}
	return idlest
}

func before(a, b *userSession) bool {
	if inUse := b.active > 0; inUse != (a.active > 0) {
		return inUse
	}
	return a.used.Before(b.used)
}
