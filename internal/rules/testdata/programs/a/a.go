package a

import (
	"flag" // want
	"log"
	"os"
)

var name = flag.String("name", "", "")

func run(l *log.Logger) error {
	log.Fatal("no")      // want
	l.Fatalf("no")       // want
	os.Exit(1)           // want
	_ = os.Getenv("A")   // want
	_ = os.Environ()     // want
	f := os.LookupEnv    // want
	_, _ = f(os.Args[0]) // want
	log.Print("fine")
	_, err := os.Open("fine")
	return err
}
