package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

// item is one resource of a workspace as it is asked for. A number is used
// once: what is requested again after it was removed, or must be replaced,
// gets another one. So a number that was once unwanted stays unwanted.
type item struct {
	Number int    `json:"number"`
	Tag    string `json:"tag"`
	// Pause is how long making and destroying it takes, in seconds.
	Pause string `json:"pause"`
}

// operation is what the user does to a workspace.
type operation string

const (
	opCreate operation = "create"
	opChange operation = "change"
	// opApprove approves the plan that waits, if one does.
	opApprove operation = "approve"
	opDelete  operation = "delete"
	// opRetain deletes the workspace and leaves its resources in place.
	opRetain  operation = "retain"
	opPause   operation = "pause"
	opUnpause operation = "unpause"
)

// fault is something that goes wrong.
type fault string

const (
	killManager    fault = "kill-manager"
	killAPIServer  fault = "kill-kube-apiserver"
	killEtcd       fault = "kill-etcd"
	killClusterAPI fault = "kill-cluster-api"
	// killSupervisor ends everything but the runs; captctl up restarts it.
	killSupervisor fault = "kill-supervisor"
	// stopManager has the manager sleep and wake up with an old view.
	stopManager     fault = "stop-manager"
	killRunner      fault = "kill-runner"
	killRunnerGroup fault = "kill-runner-group"
	stopRunner      fault = "stop-runner"
	killTofu        fault = "kill-tofu"
	termTofu        fault = "term-tofu"
	// killBoth kills a runner and its tool at once.
	killBoth fault = "kill-runner-and-tofu"
	// deleteRun deletes the Secret of a current run.
	deleteRun fault = "delete-run-secret"
)

// weighed is a fault and how often it is chosen.
type weighed struct {
	fault  fault
	weight int
}

// ofParts happen to everybody, ofRuns to the run of one workspace.
var (
	ofParts = []weighed{{killManager, 5}, {stopManager, 2}, {killAPIServer, 2}, {killEtcd, 1}, {killClusterAPI, 1}, {killSupervisor, 1}}
	ofRuns  = []weighed{{killRunner, 5}, {killRunnerGroup, 2}, {stopRunner, 1}, {killTofu, 2}, {termTofu, 3}, {killBoth, 1}, {deleteRun, 2}}
)

// step is one operation on a workspace. After is the pause before it.
type step struct {
	After time.Duration
	Do    operation
	// Items are all resources that the workspace asks for from now on.
	Items map[string]item
	// Unwanted are the numbers that are asked for no more.
	Unwanted []int
}

// mishap is one fault.
type mishap struct {
	Fault fault
	// At is when a part is hit, counted from the beginning.
	At time.Duration
	// Later is how long after it was found a run is hit.
	Later time.Duration
	// For is how long what is stopped sleeps.
	For time.Duration
}

// story is what happens to one workspace, in order.
type story struct {
	Name   string
	Manual bool
	Steps  []step
	// Mishaps happen to the workspace's runs, one after the other: to the next
	// one that is found, so that they hit something on a slow machine, too.
	Mishaps []mishap
}

// schedule is all that happens in one namespace. It follows from its seed.
type schedule struct {
	Seed    uint64
	Stories []story
	// Mishaps happen to the parts of the environment.
	Mishaps []mishap
}

const (
	// actTime is how long parts are hit, longestQuiet bounds the time between
	// two hits, longestLater that between finding and hitting a run.
	actTime      = 24 * time.Second
	longestQuiet = 16 * time.Second
	longestLater = 1500 * time.Millisecond
	// longestPause bounds the pause between two operations.
	longestPause = 5 * time.Second
	workspaces   = 3
)

// newSchedule makes the schedule of a seed.
func newSchedule(seed uint64) schedule {
	random := rand.New(rand.NewPCG(seed, 0x63617074))
	s := schedule{Seed: seed}
	for i := range workspaces {
		s.Stories = append(s.Stories, newStory(random, fmt.Sprintf("w%d", i), i == workspaces-1))
	}
	// Now and then several things go wrong at once.
	for at := 2*time.Second + span(random, 3*time.Second); at < actTime; at += span(random, longestQuiet) {
		s.Mishaps = append(s.Mishaps, newMishap(random, ofParts, at))
	}
	return s
}

func newMishap(random *rand.Rand, from []weighed, at time.Duration) mishap {
	return mishap{Fault: choose(random, from), At: at, Later: span(random, longestLater), For: time.Second + span(random, 5*time.Second)}
}

func span(random *rand.Rand, longest time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(longest))).Round(time.Millisecond)
}

func choose(random *rand.Rand, from []weighed) fault {
	total := 0
	for _, w := range from {
		total += w.weight
	}
	at := random.IntN(total)
	for _, w := range from {
		if at -= w.weight; at < 0 {
			return w.fault
		}
	}
	return from[0].fault
}

// author creates a schedule that a user could follow: only what exists is changed,
// and only what is paused is unpaused.
type author struct {
	random *rand.Rand
	story  story
	items  map[string]item
	// number is the last that was used, next the last name.
	number, next           int
	exists, paused, manual bool
}

func newStory(random *rand.Rand, name string, manual bool) story {
	a := &author{random: random, story: story{Name: name, Manual: manual}, manual: manual, items: map[string]item{}}
	for range 2 + random.IntN(2) {
		a.add()
	}
	a.exists = true
	a.do(step{Do: opCreate, After: span(random, time.Second)})
	a.approve()
	for range 5 + random.IntN(4) {
		a.advance()
	}
	if a.paused {
		a.unpause()
	}
	for range 3 + random.IntN(4) {
		a.story.Mishaps = append(a.story.Mishaps, newMishap(random, ofRuns, 0))
	}
	return a.story
}

func (a *author) do(s step) {
	if s.After == 0 {
		s.After = 200*time.Millisecond + span(a.random, longestPause)
	}
	s.Items = maps.Clone(a.items)
	a.story.Steps = append(a.story.Steps, s)
}

func (a *author) approve() {
	if a.manual && a.exists && !a.paused {
		a.do(step{Do: opApprove})
	}
}

func (a *author) unpause() {
	a.paused = false
	a.do(step{Do: opUnpause})
}

// advance continues by one operation.
func (a *author) advance() {
	switch n := a.random.IntN(12); {
	case !a.exists:
		a.exists = true
		a.do(step{Do: opCreate})
		a.approve()
	case a.paused && n < 6:
		a.unpause()
	case n < 8:
		a.change()
		a.approve()
	case n == 8 && !a.paused:
		a.paused = true
		a.do(step{Do: opPause})
	case n == 9 && !a.paused:
		a.exists = false
		a.do(step{Do: opRetain})
	case n >= 10 && !a.paused:
		a.exists = false
		a.do(step{Do: opDelete})
		// What comes after it is all new.
		a.renumber()
	default:
		a.change()
	}
}

// change changes one to three things at once.
func (a *author) change() {
	s := step{Do: opChange}
	for range 1 + a.random.IntN(3) {
		names := sorted(a.items)
		if len(names) == 0 || len(names) < 5 && a.random.IntN(4) == 0 {
			a.add()
			continue
		}
		name := names[a.random.IntN(len(names))]
		it := a.items[name]
		switch a.random.IntN(4) {
		case 0, 1:
			it.Tag = fmt.Sprintf("t%d", a.random.IntN(1000))
			a.items[name] = it
		case 2:
			s.Unwanted = append(s.Unwanted, it.Number)
			a.number++
			it.Number = a.number
			a.items[name] = it
		default:
			s.Unwanted = append(s.Unwanted, it.Number)
			delete(a.items, name)
		}
	}
	a.do(s)
}

func (a *author) add() {
	a.next++
	a.number++
	a.items[fmt.Sprintf("i%d", a.next)] = item{
		Number: a.number, Tag: fmt.Sprintf("t%d", a.random.IntN(1000)), Pause: fmt.Sprintf("0.%d", 1+a.random.IntN(9)),
	}
}

func (a *author) renumber() {
	for _, name := range sorted(a.items) {
		it := a.items[name]
		a.number++
		it.Number = a.number
		a.items[name] = it
	}
}
