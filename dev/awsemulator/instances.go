package main

// resized is called when the number of nodes of a node group may have changed: when it
// is created, changed, and with zero when it is deleted.
func (*eks) resized(_ *call, _ values, _ int) error { return nil }
