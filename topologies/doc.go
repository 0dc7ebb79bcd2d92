// Package topologies has pools that follow a primary, and the tests of redimutex against Redis with replicas, under Sentinel and as
// a Cluster: real servers on loopback, which are killed, paused and resharded. The pools are to be copied. It is a module of its own,
// so that the libraries for Sentinel and Cluster stay out of the go.mod of redimutex.
package topologies
