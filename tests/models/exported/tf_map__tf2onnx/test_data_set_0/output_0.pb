B
Identity:0J(œ=”¿ábQ?i²å?ábQ?œ=”¿2´•¿ÚuN?Ð;ä?ÚuN?2´•¿