/* kubernetes.h - Leases of a Kubernetes cluster as a store: kubernetes://[NAMESPACE]. */
#ifndef TN_STORES_KUBERNETES_KUBERNETES_H
#define TN_STORES_KUBERNETES_KUBERNETES_H

#include "runtime/store.h"

extern const struct tn_store_ops tn_kubernetes_store_ops;

#endif
