package web

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/record"
)

const (
	// maxUserLogs limits the logs that a user has open at a time, and maxLogs those of all
	// users: each is a watch of a Secret, with a copy of the log.
	maxUserLogs = 10
	maxLogs     = 100
)

// log streams the log of a run, and what is added to it until the run ends.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	user := identityOf(r)
	if !user.logs.TryAcquire(1) {
		failBusy(w, "You have too many logs open: close one in another tab, and this one is shown.")
		return
	}
	defer user.logs.Release(1)
	if !s.logs.TryAcquire(1) {
		failBusy(w, "Too many users have logs open: this one is shown when another is closed.")
		return
	}
	defer s.logs.Release(1)
	apply := s.workspace(w, r)
	if apply == nil {
		return
	}
	secret, err := operate.RunSecret(r.Context(), user.client, apply, r.URL.Query().Get("run"))
	if err != nil {
		failWith(w, err, "get secrets in "+apply.Namespace, "")
		return
	}
	out := s.newEventWriter(w)
	defer out.keepAlive(s.pingInterval)()
	if out.send("run", record.RunID(secret)) != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var sent []byte
	show := func(secret *corev1.Secret) (bool, error) {
		log, err := record.Log(secret)
		if err != nil {
			return false, err
		}
		if added := operate.NewLog(sent, log); len(added) > 0 {
			if err := out.send("log", text.Clean(string(added))); err != nil {
				return false, err
			}
		}
		if len(log) > 0 {
			sent = log
		}
		return record.Finished(secret), nil
	}
	done, err := show(secret)
	if err == nil && !done {
		// The first observation repeats what was sent, so nothing is added.
		err = operate.Watch(ctx, user.client, &corev1.SecretList{}, secret, nil, show)
	}
	end := map[string]string{}
	if err != nil {
		end["error"] = message.OneLine(err.Error())
	}
	_ = out.send("end", end)
}
