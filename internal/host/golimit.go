package host

// programMemory is the part of the container's memory that the limit of the Go runtime
// does not count: the pages of the program's file that are in use.
const programMemory = 32 << 20

// GoMemoryLimit returns the limit of the Go runtime in a container with a memory limit.
// The runtime collects garbage more often when it comes near. A tenth is left for what the
// kernel counts for the container, such as the buffers of connections.
func GoMemoryLimit(container uint64) uint64 {
	rest := container / 10 * 9
	return max(rest/2, rest-min(rest, programMemory))
}
