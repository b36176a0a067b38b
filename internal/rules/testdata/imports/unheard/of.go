package of // want
