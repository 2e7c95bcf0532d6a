package web

import (
	"context"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/appthrust/capt/internal/client/operate"
	"github.com/appthrust/capt/internal/client/text"
	"github.com/appthrust/capt/internal/message"
	"github.com/appthrust/capt/internal/terraform/record"
)

// log streams the log of a run, and what is added to it until the run ends.
func (s *Server) log(w http.ResponseWriter, r *http.Request) {
	user := identityOf(r)
	if refused := s.logs.acquire(user); refused != "" {
		failBusy(w, refused)
		return
	}
	defer s.logs.release(user)
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
		err = operate.Watch(ctx, user.client, &corev1.SecretList{}, client.ObjectKeyFromObject(secret), operate.Outage{}, show)
	}
	end := map[string]string{}
	if err != nil {
		end["error"] = message.OneLine(err.Error())
	}
	_ = out.send("end", end)
}
