//go:build servers

// servers.go - keeps the API server among the requirements of this module.
package main

import _ "k8s.io/kubernetes/cmd/kube-apiserver/app"
