package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hostler-io/hostler/coordinator/alerting"
	"github.com/hostler-io/hostler/internal/notify"
	"github.com/hostler-io/hostler/internal/settings"
)

// notifyConfig is whom to tell of alerts. It stands here alone: what runs or is reached
// from this machine is for those who own it, and for no token of the API.
type notifyConfig struct {
	Webhooks         []string `toml:"webhooks" takes:"restart" does:"Addresses to which a notification is posted, as JSON or as template_file makes it."`
	SecretFile       string   `toml:"secret_file" takes:"restart" does:"A file, or credential:NAME of systemd, with the secret by which the body of a webhook is signed: Hostler-Signature is sha256= and its HMAC-SHA-256. Empty: it is not signed."`
	TemplateFile     string   `toml:"template_file" takes:"restart" does:"A file with a text/template of Go that makes the body of a webhook. It has .Subject, .Text, .Group, .Raised and .Cleared, and the function json. Empty: the notification as JSON."`
	MailServer       string   `toml:"mail_server" takes:"restart" does:"The mail server that takes notifications, as host:port. Empty: no mail is sent."`
	MailFrom         string   `toml:"mail_from" takes:"restart" does:"The sender of the mail."`
	MailTo           []string `toml:"mail_to" takes:"restart" does:"Who gets the mail."`
	MailUser         string   `toml:"mail_user" takes:"restart" does:"The user of the mail server. Empty: it asks for none."`
	MailPasswordFile string   `toml:"mail_password_file" takes:"restart" does:"A file, or credential:NAME of systemd, with the password of that user."`
	MailPlain        bool     `toml:"mail_plain" takes:"restart" does:"Send mail without TLS, to a server on this machine."`
	Command          []string `toml:"command" takes:"restart" does:"A program by its absolute path and its arguments. It gets the notification as JSON on its standard input, and has taken it when it ends with 0."`
	GroupBy          string   `toml:"group_by" takes:"restart" does:"The name of a label: alerts of hosts with the same value of it are told together, and so are those of all hosts without the label. Empty: all are."`
	WaitSeconds      int      `toml:"wait_seconds" takes:"restart" unit:"seconds" does:"For how long alerts are collected from the first on, so that a storm is one notification."`
	RepeatMinutes    int      `toml:"repeat_minutes" takes:"restart" unit:"minutes" does:"After how long alerts that are still raised are told again."`
}

// notices makes the targets.
func (c notifyConfig) notices() (alerting.Notices, error) {
	n := alerting.Notices{GroupBy: c.GroupBy, Wait: time.Duration(c.WaitSeconds) * time.Second, Repeat: time.Duration(c.RepeatMinutes) * time.Minute}
	if c.WaitSeconds < 1 || c.WaitSeconds > 3600 || c.RepeatMinutes < 1 {
		return n, errors.New("notify: wait_seconds is 1 to 3600, and repeat_minutes 1 at least")
	}
	secret, err := settings.Secret("notify.secret_file", c.SecretFile, os.Getenv)
	if err != nil {
		return n, err
	}
	text, err := settings.Secret("notify.template_file", c.TemplateFile, os.Getenv)
	if err != nil {
		return n, err
	}
	for i, address := range c.Webhooks {
		w, err := notify.NewWebhook(fmt.Sprintf("webhook-%d", i+1), address, secret, string(text))
		if err != nil {
			return n, fmt.Errorf("notify.webhooks: %w", err)
		}
		n.Targets = append(n.Targets, w)
	}
	if c.MailServer != "" {
		password, err := settings.Secret("notify.mail_password_file", c.MailPasswordFile, os.Getenv)
		if err != nil {
			return n, err
		}
		m, err := notify.NewMail(notify.Mail{
			Label: "mail", Server: c.MailServer, From: c.MailFrom, To: c.MailTo, User: c.MailUser, Secret: string(password), Plain: c.MailPlain,
		})
		if err != nil {
			return n, fmt.Errorf("notify.mail: %w", err)
		}
		n.Targets = append(n.Targets, m)
	}
	if len(c.Command) > 0 {
		cmd, err := notify.NewCommand("command", c.Command)
		if err != nil {
			return n, fmt.Errorf("notify.command: %w", err)
		}
		n.Targets = append(n.Targets, cmd)
	}
	return n, nil
}
