// An OpenID Connect issuer for trials, and the plug-in by which kubectl signs in at it.
//
// Both are made with the certified library github.com/zitadel/oidc: its provider with its in-memory storage, and its relying
// party. What is here adds the replacement of keys. hack/real-clients builds it.
//
//	issuer serve ADDRESS CERTIFICATE KEY USERS   SIGHUP makes a new key that signs; SIGUSR1 withdraws the ones before it
//	issuer login ISSUER AUTHORITY USER PASSWORD  prints an ExecCredential, after the authorization code flow with PKCE
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"golang.org/x/oauth2"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/client/rp"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	client   = "wheelhouse"
	callback = "http://127.0.0.1/callback"
)

// key is a key of the issuer: it signs, and its public part is published.
type key struct {
	id      string
	private *rsa.PrivateKey
}

func newKey() key {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	return key{uuid.NewString(), private}
}

func (k key) ID() string                                  { return k.id }
func (k key) Key() any                                    { return k.private }
func (k key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }

// published is the public part.
type published struct{ key }

func (p published) Key() any                           { return &p.private.PublicKey }
func (p published) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (p published) Use() string                        { return "sig" }

// keeper is the library's storage with keys that can be replaced; the last one signs.
type keeper struct {
	*storage.Storage
	lock sync.Mutex
	keys []key
}

func (k *keeper) SigningKey(context.Context) (op.SigningKey, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	return k.keys[len(k.keys)-1], nil
}

func (k *keeper) KeySet(context.Context) ([]op.Key, error) {
	k.lock.Lock()
	defer k.lock.Unlock()
	var all []op.Key
	for _, one := range k.keys {
		all = append(all, published{one})
	}
	return all, nil
}

// SetUserinfoFromRequest says which group a user is in: what stands before the dash of the name.
func (k *keeper) SetUserinfoFromRequest(
	ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest, scopes []string,
) error {
	if err := k.Storage.SetUserinfoFromRequest(ctx, info, request, scopes); err != nil {
		return err
	}
	team, _, _ := strings.Cut(request.GetSubject(), "-")
	info.AppendClaims("groups", []string{team})
	return nil
}

func (k *keeper) replaceOnSignals() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1)
	for got := range signals {
		k.lock.Lock()
		if got == syscall.SIGHUP {
			k.keys = append(k.keys, newKey())
		} else {
			k.keys = k.keys[len(k.keys)-1:]
		}
		log.Printf("%v: %d keys", got, len(k.keys))
		k.lock.Unlock()
	}
}

func serve(address, certificate, private, users string) {
	store, err := storage.StoreFromFile(users)
	must(err)
	storage.RegisterClients(storage.NativeClient(client, callback))
	keeper := &keeper{Storage: storage.NewStorage(store), keys: []key{newKey()}}
	go keeper.replaceOnSignals()
	handler := exampleop.SetupServer("https://"+address, keeper, slog.Default(), false)
	must(http.ListenAndServeTLS(address, certificate, private, handler))
}

// login signs in as a browser would: it is sent to the form, fills it in, and is sent back with a code.
func login(issuer, authority, user, password string) {
	pem, err := os.ReadFile(authority)
	must(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		must(errors.New("no certificate in " + authority))
	}
	jar, err := cookiejar.New(nil)
	must(err)
	browser := &http.Client{
		Jar:       jar,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(next *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(next.URL.String(), callback) {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
	ctx := context.Background()
	scopes := []string{oidc.ScopeOpenID, storage.CustomScope}
	party, err := rp.NewRelyingPartyOIDC(ctx, issuer, client, "", callback, scopes, rp.WithHTTPClient(browser))
	must(err)
	state, verifier := uuid.NewString(), oauth2.GenerateVerifier()
	challenge := rp.WithCodeChallenge(oauth2.S256ChallengeFromVerifier(verifier))
	form, err := browser.Get(rp.AuthURL(state, party, challenge))
	must(err)
	must(form.Body.Close())
	filled := url.Values{
		"id": {form.Request.URL.Query().Get("authRequestID")}, "username": {user}, "password": {password},
	}
	back, err := browser.PostForm(issuer+"/login/username", filled)
	must(err)
	must(back.Body.Close())
	returned, err := back.Location()
	if err != nil || returned.Query().Get("state") != state {
		must(fmt.Errorf("%s is not signed in: %s", user, back.Status))
	}
	tokens, err := rp.CodeExchange[*oidc.IDTokenClaims](ctx, returned.Query().Get("code"), party, rp.WithCodeVerifier(verifier))
	must(err)
	credential := map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1",
		"kind":       "ExecCredential",
		"status": map[string]string{
			"token":               tokens.IDToken,
			"expirationTimestamp": tokens.IDTokenClaims.GetExpiration().Format(time.RFC3339),
		},
	}
	must(json.NewEncoder(os.Stdout).Encode(credential))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	arguments := os.Args[1:]
	switch {
	case len(arguments) == 5 && arguments[0] == "serve":
		serve(arguments[1], arguments[2], arguments[3], arguments[4])
	case len(arguments) == 5 && arguments[0] == "login":
		login(arguments[1], arguments[2], arguments[3], arguments[4])
	default:
		log.Fatal("issuer serve ADDRESS CERTIFICATE KEY USERS | issuer login ISSUER AUTHORITY USER PASSWORD")
	}
}
