package main

import (
	"bytes"
	"encoding/xml"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// spotRequests wraps moto's EC2, in which instances on spot have no request: AWS creates one
// for each, names it in the instance, and knows it after the instance is gone.
type spotRequests struct {
	next http.Handler

	mutex sync.Mutex
	// state maps the ids of requests to their states.
	state map[string]string
}

func newSpotRequests(next http.Handler) http.Handler {
	s := &spotRequests{next: next, state: map[string]string{}}
	return withForm("ec2", next, s.handle)
}

// requestOf returns the id of the request of an instance.
func requestOf(instance string) string { return "sir-" + strings.TrimPrefix(instance, "i-") }

var newInstances = regexp.MustCompile(`<instanceId>(i-[0-9a-f]+)</instanceId>`)

func (s *spotRequests) handle(w http.ResponseWriter, r *http.Request, form url.Values) {
	switch form.Get("Action") {
	case "DescribeSpotInstanceRequests", "CancelSpotInstanceRequests":
		s.answer(w, form)
		return
	}
	response := forward(s.next, r, form)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if form.Get("Action") == "RunInstances" && form.Get("InstanceMarketOptions.MarketType") == "spot" {
		for _, match := range newInstances.FindAllSubmatch(response.text, -1) {
			s.state[requestOf(string(match[1]))] = "active"
		}
	}
	if action := form.Get("Action"); action == "RunInstances" || action == "DescribeInstances" {
		response.text = newInstances.ReplaceAllFunc(response.text, func(element []byte) []byte {
			request := requestOf(string(newInstances.FindSubmatch(element)[1]))
			if s.state[request] == "" {
				return element
			}
			return append(bytes.Clone(element), "<instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>"+request+"</spotInstanceRequestId>"...)
		})
	}
	response.copyTo(w)
}

// answer answers calls about requests. The price is the highest that AWS would charge.
func (s *spotRequests) answer(w http.ResponseWriter, form url.Values) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	type request struct {
		ID       string `xml:"spotInstanceRequestId"`
		State    string `xml:"state"`
		Type     string `xml:"type,omitempty"`
		Behavior string `xml:"instanceInterruptionBehavior,omitempty"`
		Price    string `xml:"spotPrice,omitempty"`
		Status   string `xml:"status>code,omitempty"`
	}
	var result struct {
		XMLName  xml.Name
		Requests []request `xml:"spotInstanceRequestSet>item"`
	}
	action := form.Get("Action")
	result.XMLName.Local = action + "Response"
	for _, id := range listOf(form, "SpotInstanceRequestId") {
		if s.state[id] == "" {
			ec2Refusal{"InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '" + id + "' does not exist"}.respond(w)
			return
		}
		if action == "CancelSpotInstanceRequests" {
			s.state[id] = "cancelled"
			result.Requests = append(result.Requests, request{ID: id, State: "cancelled"})
			continue
		}
		result.Requests = append(result.Requests, request{ID: id, State: s.state[id], Type: "one-time", Behavior: "terminate", Price: "0.115000", Status: "fulfilled"})
	}
	text, err := xml.Marshal(result)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = w.Write(text)
}
