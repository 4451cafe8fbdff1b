package operator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/runtime/lru"
)

const (
	// reviewFor is how long an answer of the API server is used without asking again.
	reviewFor = time.Minute
	// reviewAbsence is how long a client that was allowed may read while the API server does not answer: metrics
	// are needed most while it is away.
	reviewAbsence = 15 * time.Minute
	// reviewTimeout bounds both questions together. Prometheus waits for 10 s by default.
	reviewTimeout = 8 * time.Second
	// maxReaders bounds the answers that are remembered. A cluster has a few clients.
	maxReaders = 256
	// maxReviews bounds the questions at a time, so that a client with wrong tokens does not load the API server.
	maxReviews = 4
)

// metricsReaders asks the API server who a client of the metrics is (TokenReview), and whether that user may
// read the path (SubjectAccessReview of a URL that is no resource, as the metrics of Kubernetes itself).
//
// The filter of controller-runtime does the same with k8s.io/apiserver, which brings twelve modules, among
// them CEL, and answers 500 while the API server is away.
type metricsReaders struct {
	kube client.Client
	now  func() time.Time
	ask  chan struct{} // has a place for each question

	mu      sync.Mutex
	allowed *lru.Map[readerKey, time.Time] // when the API server said so
}

// readerKey is what an answer is about.
type readerKey struct {
	token      [sha256.Size]byte // its hash: the token itself is not kept
	verb, path string
}

// newMetricsReaders returns readers that are reviewed with the credential of kube.
func newMetricsReaders(kube *rest.Config, now func() time.Time) (*metricsReaders, error) {
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// Known kinds: a look at the API server would delay the start, which must not need it.
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), meta.RESTScopeRoot)
	reviews, err := client.New(kube, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create the client of reviews: %w", err)
	}
	return &metricsReaders{kube: reviews, now: now, ask: make(chan struct{}, maxReviews), allowed: lru.New[readerKey, time.Time](maxReaders)}, nil
}

// filter answers 401 without a valid token, 403 to a user without the right, and 503 if the API server cannot be asked.
func (m *metricsReaders) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := m.review(r)
		switch {
		case err != nil:
			log.Error(err, "the API server cannot be asked who may read the metrics")
			http.Error(w, "the Kubernetes API cannot be asked who may read this", status)
		case status == http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of the cluster is required", status)
		case status == http.StatusForbidden:
			http.Error(w, "the user of the token may not "+strings.ToLower(r.Method)+" this path", status)
		default:
			next.ServeHTTP(w, r)
		}
	}), nil
}

// review returns the status of a request, 200 if it may pass.
func (m *metricsReaders) review(r *http.Request) (status int, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := readerKey{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	age, known := m.age(key)
	if known && age < reviewFor {
		return http.StatusOK, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	status, err = m.decide(ctx, token, key)
	switch {
	case err != nil && known && age < reviewAbsence:
		return http.StatusOK, nil
	case err != nil:
		return http.StatusServiceUnavailable, err
	}
	m.remember(key, status == http.StatusOK)
	return status, nil
}

// decide asks the API server.
func (m *metricsReaders) decide(ctx context.Context, token string, key readerKey) (status int, err error) {
	select {
	case m.ask <- struct{}{}:
		defer func() { <-m.ask }()
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for other reviews: %w", ctx.Err())
	}
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := m.kube.Create(ctx, who); err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: key.path, Verb: key.verb},
	}}
	if err := m.kube.Create(ctx, may); err != nil {
		return 0, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// age returns how long ago the API server allowed what key is about.
func (m *metricsReaders) age(key readerKey) (age time.Duration, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, known := m.allowed.Get(key)
	return m.now().Sub(at), known
}

// remember keeps an answer. Rejections are not kept: a right that was just given has effect at once.
func (m *metricsReaders) remember(key readerKey, allowed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if allowed {
		m.allowed.Put(key, m.now())
	} else {
		m.allowed.Delete(key)
	}
}
