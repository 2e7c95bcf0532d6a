package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

// item is a requested resource of a workspace. A number is used once: a resource
// that is requested again after its removal, or must be replaced, gets a new one. So
// an unwanted number stays unwanted.
type item struct {
	Number int    `json:"number"`
	Tag    string `json:"tag"`
	// Pause is how long creating and destroying it takes, in seconds.
	Pause string `json:"pause"`
}

// operation is an operation of the user on a workspace.
type operation string

const (
	opCreate operation = "create"
	opChange operation = "change"
	// opApprove approves the waiting plan, if any.
	opApprove operation = "approve"
	opDelete  operation = "delete"
	// opRetain deletes the workspace and keeps its resources.
	opRetain  operation = "retain"
	opPause   operation = "pause"
	opUnpause operation = "unpause"
	// opCheckDrift requests a drift check.
	opCheckDrift operation = "check-drift"
	// opFault injects the fault of the step.
	opFault operation = "fault"
)

// fault is a kind of failure.
type fault string

// Faults of the parts of the environment, which affect all workspaces.
const (
	killManager    fault = "kill-manager"
	killAPIServer  fault = "kill-kube-apiserver"
	killEtcd       fault = "kill-etcd"
	killClusterAPI fault = "kill-cluster-api"
	// killSupervisor stops all processes except the runs and the second manager. They
	// are then started again.
	killSupervisor fault = "kill-supervisor"
	// stopManager suspends the manager, which then continues with a stale cache.
	stopManager fault = "stop-manager"
	// killLeader kills the active one of two managers. stopLeader suspends it for
	// longer than its lease, so that it continues when the other one is active.
	killLeader fault = "kill-leader"
	stopLeader fault = "stop-leader"
	// slowAPIServer and slowEtcd suspend a process again and again for a short time.
	slowAPIServer fault = "slow-kube-apiserver"
	slowEtcd      fault = "slow-etcd"
	// useCPU starves all processes.
	useCPU fault = "cpu-pressure"
	// fillDisk fills the file system that has the working directories.
	fillDisk fault = "full-disk"
	// expireProvider and expireBackend make the provider or the backend refuse all
	// requests.
	expireProvider fault = "expired-provider-credentials"
	expireBackend  fault = "expired-backend-credentials"
	// stopKubelet disconnects the node, and stopContainerd suspends its runtime.
	stopKubelet    fault = "stop-kubelet"
	stopContainerd fault = "stop-containerd"
	// termManager and termSupervisor stop a part gracefully, as an upgrade does.
	termManager    fault = "term-manager"
	termSupervisor fault = "term-supervisor"
	// The API server executes a request and its client gets no response, executes it twice, or
	// fails without executing it.
	loseResponses  fault = "lose-responses"
	repeatRequests fault = "repeat-requests"
	failRequests   fault = "fail-requests"
	// partitionManager disconnects a manager, and its processes, from the API server.
	partitionManager fault = "partition-manager"
	// holdPlans creates a policy that requires approval, and deletes it.
	holdPlans fault = "hold-plans"
	// loseNode kills all containers of the node while its kubelet is suspended.
	loseNode fault = "lose-node"
)

// Faults of the run of one workspace.
const (
	killRunner      fault = "kill-runner"
	termRunner      fault = "term-runner"
	killRunnerGroup fault = "kill-runner-group"
	stopRunner      fault = "stop-runner"
	killTofu        fault = "kill-tofu"
	termTofu        fault = "term-tofu"
	stopTofu        fault = "stop-tofu"
	// killBoth kills a runner and its tool.
	killBoth fault = "kill-runner-and-tofu"
	// orphanTofu kills the runner of a suspended tool, which then continues.
	orphanTofu fault = "kill-runner-of-stopped-tofu"
	// killProvider kills a provider of a tool.
	killProvider fault = "kill-provider"
	// deleteRun deletes the Secret of a current run.
	deleteRun fault = "delete-run-secret"
	// deletePod deletes the pod of a run, which may stop gracefully. killContainer
	// kills all its processes, and killShim those of containerd as well.
	deletePod fault = "delete-pod"
	// evictPod evicts it, as a drain of its node does.
	evictPod      fault = "evict-pod"
	killContainer fault = "kill-container"
	killShim      fault = "kill-containerd-shim"
)

// Faults of one workspace at rest, which are steps of its scenario.
const (
	// deleteState deletes the state. It is restored when the workspace reports that it
	// is missing.
	deleteState fault = "delete-state"
	// leaveLock locks the state in the name of a holder that does not exist. A user
	// forces an unlock when the workspace reports the lock.
	leaveLock fault = "leave-lock"
	// deleteNamespace requests the deletion of the namespace, which must be refused.
	deleteNamespace fault = "delete-namespace"
	// deleteFile deletes a resource of a provider, which is drift.
	deleteFile fault = "delete-file"
)

// weightedFault is a fault and its relative frequency.
type weightedFault struct {
	fault  fault
	weight int
}

// form is what determines, besides the seed, which faults are possible.
type form struct {
	executor, backend string
}

const (
	executorProcess = "process"
	executorJob     = "job"
)

// partFaults returns the possible faults of parts.
func (f form) partFaults() []weightedFault {
	faults := []weightedFault{
		{killManager, 4},
		{stopManager, 2},
		{slowAPIServer, 2},
		{slowEtcd, 1},
		{useCPU, 2},
		{fillDisk, 1},
		{expireProvider, 1},
		{killLeader, 2},
		{stopLeader, 2},
		{termManager, 3},
		{loseResponses, 2},
		{repeatRequests, 1},
		{failRequests, 2},
		{partitionManager, 1},
		{holdPlans, 1},
		{killAPIServer, 2},
		{killEtcd, 1},
	}
	if f.backend != backendKubernetes {
		faults = append(faults, weightedFault{expireBackend, 2})
	}
	if f.executor == executorJob {
		return append(faults, weightedFault{stopKubelet, 2}, weightedFault{stopContainerd, 1}, weightedFault{loseNode, 2})
	}
	return append(faults, weightedFault{killClusterAPI, 1}, weightedFault{killSupervisor, 1}, weightedFault{termSupervisor, 1})
}

// runFaults returns the possible faults of runs.
func (f form) runFaults() []weightedFault {
	faults := []weightedFault{{killRunner, 5}, {termRunner, 2}, {stopRunner, 1}, {killTofu, 2}, {termTofu, 3}, {stopTofu, 1}, {orphanTofu, 2}, {deleteRun, 2}}
	if f.executor == executorJob {
		return append(faults, weightedFault{deletePod, 2}, weightedFault{evictPod, 2}, weightedFault{killContainer, 2}, weightedFault{killShim, 2})
	}
	return append(faults, weightedFault{killRunnerGroup, 2}, weightedFault{killBoth, 1}, weightedFault{killProvider, 2})
}

// stepFaults returns the possible faults of workspaces at rest.
func (f form) stepFaults() []weightedFault {
	faults := []weightedFault{{deleteState, 1}, {leaveLock, 1}, {deleteNamespace, 1}}
	if f.hasProvider() {
		return append(faults, weightedFault{deleteFile, 1})
	}
	return faults
}

// hasProvider reports whether the module has a resource of a provider. The image of pods has none.
func (f form) hasProvider() bool { return f.executor == executorProcess }

// step is one operation on a workspace. After is the pause before it.
type step struct {
	After time.Duration
	Do    operation
	// Items are all resources that the workspace requests after the step.
	Items map[string]item
	// Unwanted are the numbers that are no longer requested.
	Unwanted []int
	// Fault is the fault of opFault.
	Fault fault
}

// injection is one fault and its timing.
type injection struct {
	Fault fault
	// At is when a part is disrupted, from the start of the schedule.
	At time.Duration
	// Delay is how long after its start a run is disrupted, or after the start of its
	// apply or destroy if Changing is set: on a busy machine, planning takes longer
	// than any delay.
	Delay    time.Duration
	Changing bool
	// For is how long a process is suspended.
	For time.Duration
}

// scenario is the sequence of events of one workspace.
type scenario struct {
	Name   string
	Manual bool
	Steps  []step
	// Injections disrupt the workspace's runs, each the next run that is found. So
	// they have a target on a slow machine as well.
	Injections []injection
}

// schedule contains all events of one namespace. It is determined by its seed and its
// form.
type schedule struct {
	Seed      uint64
	Scenarios []scenario
	// Injections disrupt the parts of the environment.
	Injections []injection
}

const (
	// actTime is how long parts are disrupted. maxQuiet bounds the time between two
	// injections, and maxDelay the time until a run is disrupted.
	actTime  = 24 * time.Second
	maxQuiet = 16 * time.Second
	maxDelay = 1500 * time.Millisecond
	// maxPause is the maximum pause between two operations.
	maxPause   = 5 * time.Second
	workspaces = 3
)

// newSchedule returns the schedule of a seed.
func newSchedule(seed uint64, f form) schedule {
	random := rand.New(rand.NewPCG(seed, 0x63617074))
	s := schedule{Seed: seed}
	for i := range workspaces {
		s.Scenarios = append(s.Scenarios, newScenario(random, f, fmt.Sprintf("w%d", i), i == workspaces-1))
	}
	// Some injections overlap.
	for at := 2*time.Second + randomDuration(random, 3*time.Second); at < actTime; at += randomDuration(random, maxQuiet) {
		s.Injections = append(s.Injections, newInjection(random, f.partFaults(), at))
	}
	return s
}

func newInjection(random *rand.Rand, from []weightedFault, at time.Duration) injection {
	m := injection{Fault: chooseFault(random, from), At: at, Delay: randomDuration(random, maxDelay), For: time.Second + randomDuration(random, 5*time.Second)}
	if m.Changing = random.IntN(2) == 0; m.Changing {
		m.Delay /= 2
	}
	return m
}

func randomDuration(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit))).Round(time.Millisecond)
}

func chooseFault(random *rand.Rand, from []weightedFault) fault {
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

// generator creates a scenario that a user could follow: it changes only existing
// workspaces and resources, and unpauses only paused workspaces.
type generator struct {
	random   *rand.Rand
	form     form
	scenario scenario
	items    map[string]item
	// number is the last used number, next that of the last name.
	number, next           int
	exists, paused, manual bool
}

func newScenario(random *rand.Rand, f form, name string, manual bool) scenario {
	a := &generator{random: random, form: f, scenario: scenario{Name: name, Manual: manual}, manual: manual, items: map[string]item{}}
	for range 2 + random.IntN(2) {
		a.add()
	}
	a.exists = true
	a.appendStep(step{Do: opCreate, After: randomDuration(random, time.Second)})
	a.approve()
	for range 5 + random.IntN(4) {
		a.advance()
	}
	if a.paused {
		a.unpause()
	}
	for range 3 + random.IntN(4) {
		a.scenario.Injections = append(a.scenario.Injections, newInjection(random, f.runFaults(), 0))
	}
	return a.scenario
}

func (a *generator) appendStep(s step) {
	if s.After == 0 {
		s.After = 200*time.Millisecond + randomDuration(a.random, maxPause)
	}
	s.Items = maps.Clone(a.items)
	a.scenario.Steps = append(a.scenario.Steps, s)
}

func (a *generator) approve() {
	if a.manual && a.exists && !a.paused {
		a.appendStep(step{Do: opApprove})
	}
}

func (a *generator) unpause() {
	a.paused = false
	a.appendStep(step{Do: opUnpause})
}

// advance appends the next operation.
func (a *generator) advance() {
	switch n := a.random.IntN(13); {
	case !a.exists:
		a.exists = true
		a.appendStep(step{Do: opCreate})
		a.approve()
	case a.paused && n < 6:
		a.unpause()
	case n == 0:
		a.appendStep(step{Do: opFault, Fault: chooseFault(a.random, a.form.stepFaults())})
	case n < 8:
		a.change()
		a.approve()
	case n == 8 && !a.paused:
		a.paused = true
		a.appendStep(step{Do: opPause})
	case n == 9 && !a.paused:
		a.exists = false
		a.appendStep(step{Do: opRetain})
	case n == 12 && !a.paused:
		a.appendStep(step{Do: opCheckDrift})
	case n >= 10 && !a.paused:
		a.exists = false
		a.appendStep(step{Do: opDelete})
		// Resources of the next workspace are new.
		a.renumber()
	default:
		a.change()
	}
}

// change makes one to three changes in one step.
func (a *generator) change() {
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
	a.appendStep(s)
}

func (a *generator) add() {
	a.next++
	a.number++
	a.items[fmt.Sprintf("i%d", a.next)] = item{
		Number: a.number, Tag: fmt.Sprintf("t%d", a.random.IntN(1000)), Pause: fmt.Sprintf("0.%d", 1+a.random.IntN(9)),
	}
}

func (a *generator) renumber() {
	for _, name := range sorted(a.items) {
		it := a.items[name]
		a.number++
		it.Number = a.number
		a.items[name] = it
	}
}
