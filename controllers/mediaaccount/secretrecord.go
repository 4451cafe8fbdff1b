package mediaaccount

import (
	"encoding/binary"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unique"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

// secretRecord is what a reconcile compares of a Secret: the account that the label names, the hash of the
// API key, and a checksum of each label, annotation and value. The cache has it instead of them, so an app
// costs little memory, and neither keys nor what tenants add to a Secret are in the memory of the operator.
type secretRecord struct {
	account   string
	hash      account.Hash // of the API key, if there is one
	hasKey    bool
	key       uint64 // the checksum of the API key as text
	templated bool   // an annotation names what a template has set
	entries   string // checksums of entrySize bytes, sorted
}

// The kinds of entries.
const (
	labelEntry = iota
	annotationEntry
	dataEntry
)

const entrySize = 8

// recordSeed is that of the checksums: nobody can know what has an equal one.
var recordSeed = maphash.MakeSeed()

// entryText returns the checksum of an entry, of which value is that of the value.
func entryText(kind int, name string, value uint64) string {
	sum := maphash.Comparable(recordSeed, struct {
		kind  int
		name  string
		value uint64
	}{kind, name, value})
	return string(binary.BigEndian.AppendUint64(nil, sum))
}

// valueSum returns the checksum of a value.
func valueSum(value string) uint64 { return maphash.String(recordSeed, value) }

// has reports whether the Secret has the entry.
func (r secretRecord) has(kind int, name string, value uint64) bool {
	want := entryText(kind, name, value)
	for rest := r.entries; rest != ""; rest = rest[entrySize:] {
		if rest[:entrySize] == want {
			return true
		}
	}
	return false
}

// includes reports whether the Secret has every entry of some.
func includes[V ~string](r secretRecord, kind int, some map[string]V) bool {
	for name, value := range some {
		if !r.has(kind, name, valueSum(string(value))) {
			return false
		}
	}
	return true
}

// recordOf returns the record of a Secret, of the API server or of the cache.
func recordOf(secret *corev1.Secret) secretRecord {
	if text := *recordIn(secret); text != "" {
		return decodeRecord(text)
	}
	r := secretRecord{
		account: secret.Labels[v1alpha1.LabelAccount], key: valueSum(string(secret.Data[v1alpha1.SecretAPIKey])),
		templated: secret.Annotations[v1alpha1.AnnotationTemplate] != "",
	}
	if token, ok := account.ParseKeySecret(string(secret.Data[v1alpha1.SecretAPIKey])); ok {
		r.hash, r.hasKey = token.Hash(), true
	}
	entries := make([]string, 0, len(secret.Labels)+len(secret.Annotations)+len(secret.Data))
	for name, value := range secret.Labels {
		entries = append(entries, entryText(labelEntry, name, valueSum(value)))
	}
	for name, value := range secret.Annotations {
		entries = append(entries, entryText(annotationEntry, name, valueSum(value)))
	}
	for name, value := range secret.Data {
		entries = append(entries, entryText(dataEntry, name, maphash.Bytes(recordSeed, value)))
	}
	slices.Sort(entries)
	r.entries = strings.Join(entries, "")
	return r
}

// encode returns the record as a text that is equal for equal records, and never empty.
func (r secretRecord) encode() string {
	flags := byte(0)
	if r.hasKey {
		flags |= 1
	}
	if r.templated {
		flags |= 2
	}
	text := binary.AppendUvarint([]byte{flags}, uint64(len(r.account)))
	text = append(append(text, r.account...), r.hash[:]...)
	text = binary.BigEndian.AppendUint64(text, r.key)
	return string(append(text, r.entries...))
}

func decodeRecord(text string) secretRecord {
	r := secretRecord{hasKey: text[0]&1 != 0, templated: text[0]&2 != 0}
	length, size := binary.Uvarint([]byte(text[1:min(len(text), 1+binary.MaxVarintLen64)]))
	text = text[1+size:]
	r.account, text = text[:length], text[length:]
	text = text[copy(r.hash[:], text):]
	r.key = binary.BigEndian.Uint64([]byte(text[:entrySize]))
	r.entries = text[entrySize:]
	return r
}

// recordIn returns where a Secret of the cache has its record: the field is empty in those of the API server
// since Kubernetes 1.20.
func recordIn(secret *corev1.Secret) *string {
	return &secret.SelfLink //nolint:staticcheck // it is deprecated, so nothing else uses it
}

// SecretCompactor makes the Secrets of the cache. The zero value is ready for use, and safe for concurrent use.
type SecretCompactor struct {
	controllers sync.Map // of controllerKey to weak.Pointer[controllerRef]
}

// controllerRef is the controller of all Secrets of an account, which share it.
type controllerRef [1]metav1.OwnerReference

type controllerKey struct {
	apiVersion, kind, name string
	uid                    types.UID
}

// Compact returns a Secret as the cache has it: what names it, its controller, its finalizers, and the record
// of its content. Where that differs from what is desired, a reconcile reads the Secret from the API server
// before it changes anything.
func (c *SecretCompactor) Compact(secret *corev1.Secret) *corev1.Secret {
	if *recordIn(secret) != "" {
		return secret
	}
	compact := &corev1.Secret{}
	compact.Namespace = unique.Make(secret.Namespace).Value()
	compact.DeletionTimestamp, compact.Finalizers = secret.DeletionTimestamp, secret.Finalizers
	// One allocation for the texts that no other Secret has.
	texts := []string{secret.Name, string(secret.UID), secret.ResourceVersion, recordOf(secret).encode()}
	all := strings.Join(texts, "")
	next := func(i int) string {
		text := all[:len(texts[i])]
		all = all[len(text):]
		return text
	}
	compact.Name, compact.UID, compact.ResourceVersion, *recordIn(compact) = next(0), types.UID(next(1)), next(2), next(3)
	if owner := metav1.GetControllerOfNoCopy(secret); owner != nil {
		compact.OwnerReferences = c.controller(owner)[:]
	}
	return compact
}

// controller returns the reference that Secrets with this controller share. It is forgotten with the last of them.
func (c *SecretCompactor) controller(owner *metav1.OwnerReference) *controllerRef {
	key := controllerKey{strings.Clone(owner.APIVersion), strings.Clone(owner.Kind), strings.Clone(owner.Name), types.UID(strings.Clone(string(owner.UID)))}
	made := &controllerRef{{APIVersion: key.apiVersion, Kind: key.kind, Name: key.name, UID: key.uid, Controller: new(true)}}
	next := weak.Make(made)
	for {
		found, known := c.controllers.LoadOrStore(key, next)
		if !known {
			runtime.AddCleanup(made, func(key controllerKey) { c.controllers.CompareAndDelete(key, next) }, key)
			return made
		}
		if shared := found.(weak.Pointer[controllerRef]).Value(); shared != nil {
			return shared
		}
		c.controllers.CompareAndDelete(key, found)
	}
}
