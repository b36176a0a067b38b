package a

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIt(t *testing.T) {
	time.Sleep(time.Second) // want
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		go func() { time.Sleep(time.Second) }()
	})
}
