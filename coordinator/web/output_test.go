package web_test

import (
	"net/http"
	"testing"

	"github.com/hostler-io/hostler/api"
	"github.com/hostler-io/hostler/coordinator/core"
)

// TestWhoMayRead: every role reads, whole or a part; to make a command wait takes
// an operator.
func TestWhoMayRead(t *testing.T) {
	onSite(t, func(t *testing.T, s *site) {
		output := "/v1/actions/" + s.ended("0123456789") + "/output"
		for _, role := range []core.TokenRole{core.RoleViewer, core.RoleOperator, core.RoleApprover, core.RoleAdmin} {
			req := s.request(role, http.MethodGet, output, nil)
			req.Header.Set("Range", "bytes=2-4")
			if r := s.do(req); r.StatusCode != http.StatusPartialContent || string(r.body) != "234" || r.Header.Get("Content-Range") != "bytes 2-4/10" {
				t.Errorf("%s: a part: %d %q, %q", role, r.StatusCode, r.body, r.Header.Get("Content-Range"))
			}
			req = s.request(role, http.MethodGet, output, nil)
			req.Header.Set("Range", "bytes=10-")
			wantProblem(t, s.do(req), api.CodeRange)
			if r := s.call(role, http.MethodGet, output+"?follow=true", nil); r.StatusCode != http.StatusOK || string(r.body) != "0123456789" {
				t.Errorf("%s: followed: %d %q", role, r.StatusCode, r.body)
			}
			r := s.call(role, http.MethodGet, output+"?follow=true&hold=true", nil)
			if role != core.RoleViewer {
				if r.StatusCode != http.StatusOK || string(r.body) != "0123456789" {
					t.Errorf("%s: held: %d %q", role, r.StatusCode, r.body)
				}
				continue
			}
			wantProblem(t, r, api.CodeRole)
		}
		wantProblem(t, s.call("", http.MethodGet, output+"?follow=true&hold=true", nil), api.CodeUnauthentic)
	})
}
