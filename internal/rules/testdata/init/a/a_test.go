package a

func init() {} // want
