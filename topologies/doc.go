// Package topologies has pools that follow a primary, for copying. It also has the tests of redimutex against Redis with
// replicas, under Sentinel and as a Cluster: real servers on loopback, which are killed, paused and resharded. It is a
// separate module, so that the libraries for Sentinel and Cluster stay out of redimutex's go.mod.
package topologies
