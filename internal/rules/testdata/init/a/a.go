package a

func init() {} // want

type t struct{}

func (t) init() {}
