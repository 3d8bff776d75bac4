/* kube_name.h - lease names as names of Kubernetes objects, one-to-one.
 *
 * Kubernetes takes RFC 1123 subdomains: up to 253 of a-z, 0-9, '-' and '.', each part between dots
 * with a letter or digit at both ends. A name like that stays as it is, unless it begins with
 * "tenure-". Others become "tenure-" and the name with every byte but a-z and 0-9 as '-' and two
 * hexadecimal digits; if that is too long, "tenure-long." and the name's SHA-256.
 * Pure. Threads: any. */
#ifndef TN_NET_KUBE_NAME_H
#define TN_NET_KUBE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/name.h"
#include "base/text.h"

enum { TN_KUBE_NAME = 254 };

void tn_kube_name(const char *name, size_t len, char ret_object[TN_KUBE_NAME]);
/* Whether it is one of those that do not tell the name. */
bool tn_kube_name_is_hash(const char *object);
/* The way back; @full: the name, for those that do not tell it, or NULL. False: no name of ours. */
bool tn_kube_name_back(const char *object, const char *full, char ret_name[TN_NAME_MAX + 1]);

#endif
