// A client as a user makes one: the types and methods are generated from the document
// of the coordinator, see api.gen.go. It gives one order and prints its output.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	if err := order(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func order(ctx context.Context) error {
	ca, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	fleet := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	token := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
		return nil
	}
	c, err := NewClientWithResponses(os.Getenv("ADDRESS"), WithHTTPClient(fleet), WithRequestEditorFn(token))
	if err != nil {
		return err
	}

	args := new(NewAction_Args)
	if err := args.FromArgsHostRun(ArgsHostRun{Argv: []string{"echo", "hello from", "Go"}}); err != nil {
		return err
	}
	kind, wait, key := NewActionKind("host.run"), "30s", "go-client"
	a, err := c.CreateActionWithResponse(ctx, &CreateActionParams{Wait: &wait, IdempotencyKey: &key}, NewAction{Host: os.Getenv("HOST"), Kind: &kind, Args: args})
	if err != nil {
		return err
	}
	if a.JSON200 == nil {
		return fmt.Errorf("%s: %s", a.Status(), a.Body)
	}
	fmt.Println(a.JSON200.State, *a.JSON200.Reason)
	follow := true // the end may be known before the last of the output has come
	out, err := c.GetActionOutput(ctx, a.JSON200.Id, &GetActionOutputParams{Follow: &follow})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	if _, err := io.Copy(os.Stdout, out.Body); err != nil {
		return err
	}

	wrong, err := c.GetHostWithResponse(ctx, "nobody")
	if err != nil {
		return err
	}
	if wrong.ApplicationproblemJSONDefault == nil {
		return errors.New("an unknown host is no problem")
	}
	fmt.Println(wrong.ApplicationproblemJSONDefault.Code)
	return nil
}
